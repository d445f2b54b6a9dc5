"""The command line: parsing, tables and exit codes; everything else lives below."""
