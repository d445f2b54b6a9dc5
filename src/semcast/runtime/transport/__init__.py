"""Datagrams and connections: sockets, interfaces, addresses, UDP and TCP."""
