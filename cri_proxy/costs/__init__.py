"""Cost files: read a listing of costs, all files of a node's directory, and join what they say."""
