"""A fake API server over TLS on loopback: objects by path, merge patches, versions, tokens. Its threads end with it."""

import json
import shutil
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cri_proxy.kube_api.access import ApiAccess, access_of

_TLS = Path(__file__).parent / "tls"
TOKEN = "token-of-the-pod"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


@dataclass
class Objects:
    """What the server has. ``refuse`` gives a status for a request that is to fail: method and path, 0 for none."""

    by_path: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    refuse: Callable[[str, str], int] = lambda method, path: 0
    lock: threading.RLock = field(default_factory=threading.RLock)
    version: int = 1

    def put(self, path: str, value: dict[str, Any]) -> None:
        """Have this object, whatever was there."""
        with self.lock:
            self.version += 1
            value.setdefault("metadata", {})["resourceVersion"] = str(self.version)
            self.by_path[path] = value

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self.lock:
            self.asked.append((method, path))
            if status := self.refuse(method, path):
                return status, {"kind": "Status", "message": "refused by the test"}
            there = self.by_path.get(path)
            if method == "POST":
                path = f"{path}/{body['metadata']['name']}"
                if path in self.by_path:
                    return 409, {"kind": "Status", "message": "already exists"}
                self.put(path, body)
            elif there is None:
                return 404, {"kind": "Status", "reason": "NotFound", "message": f"{path} not found"}
            elif method == "DELETE":
                return 200, self.by_path.pop(path)
            elif method == "PATCH":
                wanted = body.get("metadata", {}).get("resourceVersion", "")
                if wanted not in ("", there["metadata"]["resourceVersion"]):
                    return 409, {"kind": "Status", "message": "the object has been modified"}
                self.put(path, merged(there, body))
            return 200, self.by_path[path]


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """RFC 7386."""
    result = {key: value for key, value in base.items() if over.get(key, "") is not None}
    for key, value in over.items():
        if isinstance(value, dict):
            there = result.get(key)
            result[key] = merged(there if isinstance(there, dict) else {}, value)
        elif value is not None:
            result[key] = value
    return result


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, objects: Objects, tls: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects = objects
        self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not trust us hangs up, which is what its test is about."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 20

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            status, found = 401, {"kind": "Status", "message": "Unauthorized"}
        else:
            status, found = self.server.objects.answer(self.command, self.path, json.loads(body or b"{}"))
        text = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - as http.server calls them

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


@contextmanager
def served(objects: Objects, directory: Path) -> Iterator[ApiAccess]:
    """The server with these objects, and the access of a pod that it knows, whose account is in the directory."""
    shutil.copy(_TLS / "one.crt", directory / "ca.crt")  # of 127.0.0.1, valid for a hundred years
    (directory / "token").write_text(f"{TOKEN}\n")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(_TLS / "one.crt", _TLS / "one.key")
    server = _Server(objects, tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        port = str(server.server_address[1])
        yield access_of(None, {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}, directory)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
