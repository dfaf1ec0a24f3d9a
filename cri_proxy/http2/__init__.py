"""HTTP/2 and gRPC framing, without I/O."""
