"""An API server on a real socket with TLS: objects with versions, a token, and answers that a test scripts.

It refuses what a real one would: a wrong token, a name that is taken, a version that is not the newest, a body that is
no object of the path's kind.
"""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import h11

from tests.testbed.certificates import Certificate

TOKEN = "a-token"
Plain = dict[str, object]

_KINDS = {
    "noderesourcetopologies": ("topology.node.k8s.io/v1alpha2", "NodeResourceTopology"),
    "events": ("events.k8s.io/v1", "Event"),
    "nodes": ("v1", "Node"),
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
    """What it holds, by path, and what was asked."""

    token: str = TOKEN
    objects: dict[str, Plain] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    scripted: list[Scripted] = field(default_factory=list)
    version: int = 100
    port: int = 0

    def writes(self) -> list[str]:
        """The methods and paths of all calls but reads."""
        return [f"{r.method} {r.path}" for r in self.requests if r.method != "GET"]

    def put(self, path: str, value: Plain) -> None:
        """Store an object as another client would."""
        self.version += 1
        metadata = value.setdefault("metadata", {})
        assert isinstance(metadata, dict)
        metadata["resourceVersion"] = str(self.version)
        metadata.setdefault("uid", f"uid-{self.version}")
        self.objects[path] = value

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Plain | bytes]:
        """The status, and the object or the text."""
        if self.scripted:
            said = self.scripted.pop(0)
            said.before()
            return said.status, _status(said.status, said.reason, said.message) if said.raw is None else said.raw
        if headers.get("authorization") != f"Bearer {self.token}":
            return 401, _status(401, "Unauthorized", "Unauthorized")
        value = json.loads(body) if body else {}
        kind = next((kind for name, kind in _KINDS.items() if name in path.split("/")), None)
        if kind is None:
            return 404, b"404 page not found\n"
        if method in ("POST", "PUT") and (value.get("apiVersion"), value.get("kind")) != kind:
            return 400, _status(400, "BadRequest", "the object is of another kind")
        return getattr(self, f"_{method.lower()}")(path, value, headers)  # type: ignore[no-any-return]  # one of these

    def _get(self, path: str, value: Plain, headers: Mapping[str, str]) -> tuple[int, Plain]:
        found = self.objects.get(path)
        return (200, found) if found is not None else _absent(path)

    def _post(self, path: str, value: Plain, headers: Mapping[str, str]) -> tuple[int, Plain]:
        metadata = value["metadata"]
        assert isinstance(metadata, dict)
        place = f"{path}/{metadata.get('name') or metadata['generateName'] + str(self.version)}"
        if place in self.objects:
            return 409, _status(409, "AlreadyExists", f"{place} already exists")
        self.put(place, value)
        return 201, value

    def _put(self, path: str, value: Plain, headers: Mapping[str, str]) -> tuple[int, Plain]:
        metadata, found = value["metadata"], self.objects.get(path)
        if found is None:
            return _absent(path)
        known = found["metadata"]
        assert isinstance(metadata, dict)
        assert isinstance(known, dict)
        if metadata.get("resourceVersion") != known["resourceVersion"]:
            return 409, _status(409, "Conflict", "the object has been modified")
        self.put(path, value)
        return 200, value

    def _patch(self, path: str, value: Plain, headers: Mapping[str, str]) -> tuple[int, Plain]:
        found = self.objects.get(path)
        if found is None:
            return _absent(path)
        assert headers["content-type"] == "application/strategic-merge-patch+json"
        _merge_conditions(found, value)
        return 200, found

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close."""
        wire, body, head = h11.Connection(h11.SERVER), b"", None
        while not isinstance(event := wire.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                wire.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            else:  # the client has gone
                writer.close()
                return
        assert head is not None
        headers = {name.decode(): value.decode() for name, value in head.headers}
        more = self.scripted[0].headers if self.scripted else {}
        status, found = self.answer(head.method.decode(), head.target.decode(), headers, body)
        content = found if isinstance(found, bytes) else json.dumps(found).encode()
        plain = json.loads(body) if body else None
        self.requests.append(Request(head.method.decode(), head.target.decode(), headers, plain, status))
        fields = [("Content-Length", str(len(content))), *more.items()]
        for event in (h11.Response(status_code=status, headers=fields), h11.Data(data=content), h11.EndOfMessage()):
            writer.write(wire.send(event) or b"")
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()


def _merge_conditions(found: Plain, patch: Plain) -> None:
    status, wanted = found.setdefault("status", {}), patch["status"]
    assert isinstance(status, dict)
    assert isinstance(wanted, dict)
    by_type = {each["type"]: each for each in status.get("conditions", [])}
    for each in wanted["conditions"]:
        by_type[each["type"]] = {**by_type.get(each["type"], {}), **each}
    status["conditions"] = list(by_type.values())


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


@asynccontextmanager
async def api_server(certificate: Certificate, server: ApiServer | None = None) -> AsyncIterator[ApiServer]:
    """Serve on a free port of loopback, on the one of before where it had one."""
    server = server or ApiServer()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate.certificate, certificate.key)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", server.port, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
