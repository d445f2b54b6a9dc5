"""Pages that a browser shows: one file each, nothing loaded from elsewhere."""
