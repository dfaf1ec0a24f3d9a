"""The keys by which pools are compared for a request: their fields, and what goes into them."""
