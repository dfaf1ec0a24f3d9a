"""Kinds of documents as tables of rows, from which they are read, written back and documented. Pure."""
