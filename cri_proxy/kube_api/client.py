"""Ask the Kubernetes API server: one request, one JSON object back. Blocks."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from cri_proxy.errors import CriProxyError
from cri_proxy.foreign_text import admit
from cri_proxy.kube_api.account import Account

_SECONDS: Final = 10.0
# A Node with its images is some 50 KiB; nothing that is asked for here is larger than an object of etcd.
_LARGEST_BYTES: Final = 8 << 20
MERGE_PATCH: Final = "application/merge-patch+json"
_JSON: Final = "application/json"
NOT_FOUND, CONFLICT = 404, 409

Object = dict[str, Any]


@dataclass(eq=False)
class ApiRefused(CriProxyError):
    """The API server answered with an error: ``status`` of HTTP, and its own words."""

    target: str
    status: int
    message: str

    def __str__(self) -> str:
        return f"{self.target}: the API server answers {self.status}: {self.message}"


class ApiUnreachable(CriProxyError):
    """The API server does not answer, or not as one; a write may have been carried out all the same."""


def path_of(*parts: str) -> str:
    """Return a path of the API.

    >>> path_of("api", "v1", "nodes", "a/b")
    '/api/v1/nodes/a%2Fb'
    """
    return "".join(f"/{quote(part, safe='')}" for part in parts)


class ApiClient:
    """Asks as one account. Threads may share it."""

    def __init__(self, account: Account, *, seconds: float = _SECONDS) -> None:
        """Nothing is opened yet. ``seconds`` is how long each read and write may take."""
        self._account = account
        self._seconds = seconds

    def get(self, path: str) -> Object:
        """Return an object. Raises ApiRefused, ApiUnreachable, FileError."""
        return self.ask("GET", path)

    def find(self, path: str) -> Object | None:
        """Return an object, None where there is none. Raises as ``get``."""
        try:
            return self.get(path)
        except ApiRefused as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, form: str = _JSON) -> Object:
        """Return the object that the server answers. ``form``: the type of the body.

        Raises ApiRefused for any status that is not one of success, ApiUnreachable, FileError for the account's files.
        """
        account = self._account
        headers = {"Accept": _JSON, "Authorization": f"Bearer {account.token()}", "Content-Type": form}
        connection = http.client.HTTPSConnection(
            account.host, account.port, timeout=self._seconds, context=account.tls()
        )
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read(_LARGEST_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            where = f"{account.host}:{account.port}"
            raise ApiUnreachable(
                f"the API server at {where} does not answer: {error or type(error).__name__}"
            ) from error
        finally:
            connection.close()
        return _object_of(f"{method} {path}", response.status, text)


def _object_of(target: str, status: int, text: bytes) -> Object:
    try:
        found = json.loads(text) if len(text) <= _LARGEST_BYTES else None
    except ValueError:
        found = None
    if status // 100 != 2:
        message = found.get("message") if isinstance(found, dict) else None
        raise ApiRefused(target, status, admit(str(message or text[:200].decode(errors="replace"))))
    if not isinstance(found, dict):
        raise ApiUnreachable(f"{target}: the API server answers {status} without an object")
    return found
