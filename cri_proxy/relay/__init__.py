"""Relays between kubelet and runtime: the HTTP/2 splice with its sockets, one on grpcio, one in process; counters."""
