"""HTTP/2 and gRPC without I/O: frames, header blocks, messages, status, and the client side of a connection."""
