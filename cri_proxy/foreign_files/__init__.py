"""Files that others write: read beneath their directory, and named as what they should be."""
