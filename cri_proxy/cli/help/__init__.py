"""The texts of the command line: the table of commands, and what shells and man pages have of the parsers."""
