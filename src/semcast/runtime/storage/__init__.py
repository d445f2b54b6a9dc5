"""What a member keeps on disk: keys, the number of its start, its trace."""
