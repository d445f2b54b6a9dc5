"""Asyncio, sockets, disks and clocks: the member of a group as a real process."""
