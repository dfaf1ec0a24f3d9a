"""An API server on a real socket with TLS: objects with versions, a token, and answers that a test scripts.

It refuses what a real one would: a wrong token, a name that is taken, a version that is not the newest, a body that is
no object of the path's kind. Its threads end with it.
"""

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from tests.testbed.certificates import Certificate

TOKEN = "a-token"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
Plain = dict[str, Any]

_KINDS = {
    "noderesourcetopologies": ("topology.node.k8s.io/v1alpha2", "NodeResourceTopology"),
    "events": ("events.k8s.io/v1", "Event"),
    "nodes": ("v1", "Node"),
    "leases": ("coordination.k8s.io/v1", "Lease"),
}


@dataclass(frozen=True, slots=True)
class Request:
    """A call that came, and the status of its answer."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: object
    status: int


@dataclass(frozen=True, slots=True)
class Scripted:
    """An answer in the place of the server's own; ``before`` is called when the request has come."""

    status: int
    reason: str = ""
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    before: Callable[[], None] = lambda: None


@dataclass
class ApiServer:
    """What it holds, by path, and what was asked. ``refuse`` returns the status of a refusal, or 0."""

    token: str = TOKEN
    objects: dict[str, Plain] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    scripted: list[Scripted] = field(default_factory=list)
    refuse: Callable[[str, str], int] = lambda method, path: 0
    lock: threading.RLock = field(default_factory=threading.RLock)
    version: int = 100
    port: int = 0

    def writes(self) -> list[str]:
        """The methods and paths of all calls but reads."""
        return [f"{r.method} {r.path}" for r in self.requests if r.method != "GET"]

    def put(self, path: str, value: Plain) -> None:
        """Store an object as another client would."""
        with self.lock:
            self.version += 1
            metadata = value.setdefault("metadata", {})
            metadata["resourceVersion"] = str(self.version)
            metadata.setdefault("uid", f"uid-{self.version}")
            self.objects[path] = value

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Plain | bytes]:
        """The status, and the object or the text."""
        path, _, query = target.partition("?")
        if self.scripted:
            said = self.scripted.pop(0)
            said.before()
            return said.status, _status(said.status, said.reason, said.message) if said.raw is None else said.raw
        if headers.get("authorization") != f"Bearer {self.token}":
            return 401, _status(401, "Unauthorized", "Unauthorized")
        if status := self.refuse(method, path):
            return status, _status(status, "", "refused by the test")
        value = json.loads(body) if body else {}
        kind = next((kind for name, kind in _KINDS.items() if name in path.split("/")), None)
        if kind is None:
            return 404, b"404 page not found\n"
        if method in ("POST", "PUT") and (value.get("apiVersion"), value.get("kind")) != kind:
            return 400, _status(400, "BadRequest", "the object is of another kind")
        asked = dict(parse_qsl(query, keep_blank_values=True))
        if method == "GET" and "labelSelector" in asked:
            method, value = "LIST", asked
        return getattr(self, f"_{method.lower()}")(path, value, headers)  # type: ignore[no-any-return]  # one of these

    def _list(self, path: str, query: Plain, headers: Mapping[str, str]) -> tuple[int, Plain]:
        """The objects of a collection that have the labels; of selectors it knows KEY=VALUE, KEY and commas."""
        if any(words in query["labelSelector"] for words in (" in ", "!")):
            return 400, _status(400, "BadRequest", f"unable to parse requirement: {query['labelSelector']}")
        wanted = [each.partition("=") for each in query["labelSelector"].split(",") if each]
        inside = [value for place, value in self.objects.items() if place.rpartition("/")[0] == path]
        items = [each for each in inside if all(_has(each, key, value, sign) for key, sign, value in wanted)]
        return 200, {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": items}

    def _get(self, path: str, value: Plain, headers: Mapping[str, str]) -> tuple[int, Plain]:
        found = self.objects.get(path)
        return (200, found) if found is not None else _absent(path)

    def _post(self, path: str, value: Plain, headers: Mapping[str, str]) -> tuple[int, Plain]:
        metadata = value["metadata"]
        place = f"{path}/{metadata.get('name') or metadata['generateName'] + str(self.version)}"
        if place in self.objects:
            return 409, _status(409, "AlreadyExists", f"{place} already exists")
        self.put(place, value)
        return 201, value

    def _put(self, path: str, value: Plain, headers: Mapping[str, str]) -> tuple[int, Plain]:
        metadata, found = value["metadata"], self.objects.get(path)
        if found is None:
            return _absent(path)
        if metadata.get("resourceVersion") != found["metadata"]["resourceVersion"]:
            return 409, _status(409, "Conflict", "the object has been modified")
        self.put(path, value)
        return 200, value

    def _patch(self, path: str, value: Plain, headers: Mapping[str, str]) -> tuple[int, Plain]:
        found = self.objects.get(path)
        if found is None:
            return _absent(path)
        assert headers["content-type"] == "application/strategic-merge-patch+json"
        if value.get("metadata", {}).get("resourceVersion") not in (None, found["metadata"]["resourceVersion"]):
            return 409, _status(409, "Conflict", "the object has been modified")
        self.put(path, merged := _merged(found, value))
        return 200, merged


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, api: ApiServer, tls: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", api.port), _Handler)
        self.api = api
        self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not trust us hangs up, which is what its test is about."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 20

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        api = self.server.api
        with api.lock:
            more = api.scripted[0].headers if api.scripted else {}
            status, found = api.answer(self.command, self.path, headers, body)
            plain = json.loads(body) if body else None
            api.requests.append(Request(self.command, self.path, headers, plain, status))
            content = found if isinstance(found, bytes) else json.dumps(found).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = _answer  # noqa: N815 - as http.server calls them

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


def _has(value: Plain, key: str, wanted: str, sign: str) -> bool:
    labels = value["metadata"].get("labels", {})
    return key in labels and (not sign or labels[key] == wanted)


def _merged(base: Plain, patch: Plain) -> Plain:
    """The object after a strategic merge patch; of lists, conditions are merged by type and others replaced."""
    result = {key: value for key, value in base.items() if patch.get(key, "") is not None}
    for key, value in patch.items():
        there = result.get(key)
        if isinstance(value, dict):
            result[key] = _merged(there if isinstance(there, dict) else {}, value)
        elif key == "conditions":
            by_type = {each["type"]: each for each in there or ()}
            by_type.update({each["type"]: {**by_type.get(each["type"], {}), **each} for each in value})
            result[key] = list(by_type.values())
        elif value is not None:
            result[key] = value
    return result


def _absent(path: str) -> tuple[int, Plain]:
    return 404, _status(404, "NotFound", f'"{path.rsplit("/", 1)[-1]}" not found')


def _status(code: int, reason: str, message: str) -> Plain:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


@contextmanager
def api_server(certificate: Certificate, api: ApiServer | None = None) -> Iterator[ApiServer]:
    """Serve on a free port of loopback, on the one of before where it had one."""
    api = api or ApiServer()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate.certificate, certificate.key)
    server = _Server(api, tls)
    api.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
