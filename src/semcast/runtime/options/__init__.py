"""Options: one table, where their values come from, how they are parsed."""
