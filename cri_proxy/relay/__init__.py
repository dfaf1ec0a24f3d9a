"""Between kubelet and runtime: the HTTP/2 splice, the grpc.aio relay and the table of intercepted methods."""
