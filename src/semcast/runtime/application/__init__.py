"""What an application holds: the way into a group, the group, its mailbox."""
