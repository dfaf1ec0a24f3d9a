"""Parse a pod's annotations into the preferences of one of its containers."""
