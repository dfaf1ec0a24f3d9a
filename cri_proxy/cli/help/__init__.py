"""The texts of the command line: its commands, and what shells, man pages and editors have of parsers and readers."""
