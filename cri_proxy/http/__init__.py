"""HTTP and the admin socket: the same read-only handlers."""
