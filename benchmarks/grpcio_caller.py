"""A client on gRPC's C core in a process of its own, as many programs around a node are: calls one after the other.

Reads a line of JSON for each load (path, method, calls), opens a connection, warms it up and says so; at the next line
it makes the calls and prints their seconds. End of input is the end.
"""

import json
import sys
import time
from typing import Any, Final

import grpc

WARM: Final = "warm"
_TIMEOUT_SECONDS: Final = 120
_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))


def serve_caller() -> None:
    """Serve standard input."""
    print("ready", flush=True)
    for line in sys.stdin:
        load = json.loads(line)
        with grpc.insecure_channel(f"unix:{load['path']}", options=_OPTIONS) as channel:
            unary: Any = channel.unary_unary  # grpc-stubs demand serializers that grpcio leaves optional
            call = unary(load["method"])
            for _ in range(load["calls"] // 10 + 10):
                call(b"", timeout=_TIMEOUT_SECONDS)
            print(WARM, flush=True)
            sys.stdin.readline()
            seconds = []
            for _ in range(load["calls"]):
                begun = time.perf_counter()
                call(b"", timeout=_TIMEOUT_SECONDS)
                seconds.append(time.perf_counter() - begun)
        print(json.dumps(seconds), flush=True)
