"""Ask the API server for objects; errors say what it refused and how long to wait."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlencode

from cri_proxy.errors import CriProxyError
from cri_proxy.foreign_text import admit
from cri_proxy.http.call import HttpAnswer, call
from cri_proxy.kube_api.access import ApiAccess
from cri_proxy.version import version

Plain = Mapping[str, object]

MERGE_PATCH: Final = "application/strategic-merge-patch+json"
_JSON: Final = "application/json"
_LONGEST_WAIT_SECONDS: Final = 300.0


@dataclass(eq=False)
class ApiRefused(CriProxyError):
    """The API server answers a call with an error. ``retry_seconds`` is how long it asks to wait; 0 = it does not."""

    call: str
    status: int
    reason: str
    message: str
    retry_seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.call}: {self.status} {self.reason}{f': {self.message}' if self.message else ''}"


class ApiClient:
    """One call at a time, each on a connection of its own: there are few of them."""

    def __init__(self, access: ApiAccess) -> None:
        """Connect to nothing yet."""
        self._access = access

    async def get(self, path: str, query: Mapping[str, str] | None = None, *, accept: str = _JSON) -> Plain | None:
        """Return the object, or the list, at this path; None where there is none. Raises as ``send`` does."""
        try:
            return await self._call("GET", path, b"", query=query or {}, accept=accept)
        except ApiRefused as error:
            if error.status == HTTPStatus.NOT_FOUND and error.reason == "NotFound":
                return None
            raise

    async def send(self, method: str, path: str, value: Plain, content_type: str = _JSON) -> Plain:
        """Return the object after this write. Raises ApiRefused, AccessError and Unreachable."""
        return await self._call(method, path, json.dumps(value).encode(), content_type)

    async def _call(
        self,
        method: str,
        path: str,
        body: bytes,
        content_type: str = _JSON,
        query: Mapping[str, str] | None = None,
        accept: str = _JSON,
    ) -> Plain:
        headers = {"Accept": accept, "User-Agent": f"cri-proxy/{version()}", **self._access.headers()}
        if body:
            headers["Content-Type"] = content_type
        target = quote(self._access.prefix + path, safe="/") + (f"?{urlencode(query)}" if query else "")
        answer = await call(self._access.server(), method, target, headers, body)
        found = answer.plain()
        if answer.status >= HTTPStatus.BAD_REQUEST or not isinstance(found, dict):
            raise _refusal(f"{method} {path}", answer, found)
        return found


def _refusal(what: str, answer: HttpAnswer, found: object) -> ApiRefused:
    """Return the error of an answer: its body is a Status object, if the API server itself has answered."""
    status = found if isinstance(found, dict) and found.get("kind") == "Status" else {}
    reason, message = str(status.get("reason") or _phrase(answer.status)), str(status.get("message") or "")
    wait = answer.headers.get("retry-after", "")
    seconds = min(float(wait), _LONGEST_WAIT_SECONDS) if wait.isascii() and wait.isdecimal() else 0.0
    return ApiRefused(what, answer.status, admit(reason), admit(message), seconds)


def _phrase(status: int) -> str:
    if status < HTTPStatus.BAD_REQUEST:
        return "an answer that is no object"
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
