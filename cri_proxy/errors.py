"""The daemon's errors: one base class, a few subclasses with fields instead of sentences.

Not frozen: raising sets attributes on an exception, and ``contextlib`` does so from Python.
"""

from dataclasses import dataclass


class CriProxyError(Exception):
    """Base of everything that the daemon raises on purpose."""


@dataclass(eq=False)
class CallFailed(CriProxyError):
    """The runtime answered a call of ours with a status other than OK.

    ``code`` is the gRPC status number, ``message`` the runtime's own words.
    """

    method: str
    code: int
    message: str

    def __str__(self) -> str:
        return f"{self.method}: status {self.code}: {self.message}"


@dataclass(eq=False)
class RuntimeUnavailable(CriProxyError):
    """The runtime cannot be reached, or the connection broke before an answer: the outcome is unknown."""

    method: str
    problem: str

    def __str__(self) -> str:
        return f"{self.method}: the runtime is away: {self.problem}"


@dataclass(eq=False)
class UnreadableRequest(CriProxyError):
    """A caller has sent what is no message of the method's kind: whose fault it is, is clear."""

    method: str
    problem: str

    def __str__(self) -> str:
        return f"{self.method}: the request cannot be read: {self.problem}"


@dataclass(eq=False)
class StoreError(CriProxyError):
    """The state store cannot be read or written: the path, the problem and the remedy."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


@dataclass(eq=False)
class StoreUnavailable(StoreError):
    """The same, where the disk is at fault and not what is on it: full, read-only, broken. Later it may work."""


@dataclass(eq=False)
class ConfigError(CriProxyError):
    """A configuration that is not taken: the file, the line (0 = unknown), the key, the problem and remedy."""

    path: str
    line: int
    key: str
    problem: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: {self.key}: {self.problem}" if self.key else f"{where}: {self.problem}"
