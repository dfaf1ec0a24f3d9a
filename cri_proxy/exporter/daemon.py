"""Ask the daemon of this node, over its admin socket."""

from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from cri_proxy.errors import CriProxyError
from cri_proxy.foreign_text import admit
from cri_proxy.http.call import HttpAnswer, HttpServer, Unreachable, call

TOPOLOGY: Final = "/api/v1/node-topology"


@dataclass(eq=False)
class DaemonNotReady(CriProxyError):
    """The daemon answers, and not yet with what is asked for."""

    target: str
    problem: str

    def __str__(self) -> str:
        return f"the daemon: {self.problem}"


class AdminClient:
    """The daemon behind a socket."""

    def __init__(self, socket: Path) -> None:
        """Connect to nothing yet."""
        self.name = f"the daemon at {socket}"
        self._server = HttpServer(self.name, socket)

    async def get(self, target: str) -> bytes:
        """Return the answer to GET. Raises Unreachable and DaemonNotReady."""
        answer = await call(self._server, "GET", target)
        if answer.status == HTTPStatus.OK:
            return answer.body
        raise DaemonNotReady(target, _said(answer))

    async def object_at(self, target: str) -> dict[str, object]:
        """Return the object that it answers, also with an error status. Raises Unreachable."""
        answer = await call(self._server, "GET", target)
        found = answer.plain()
        if not isinstance(found, dict):
            raise Unreachable(self.name, f"{target}: expected an object, got {answer.status} {_said(answer)}")
        return found


def _said(answer: HttpAnswer) -> str:
    return admit(answer.body.decode(errors="replace").strip().partition("\n")[0])
