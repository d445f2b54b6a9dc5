"""Reports: the results in a directory as one page."""
