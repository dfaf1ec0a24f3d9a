"""The base class of cri_proxy's errors, and those that packages share: calls, requests, store, configuration.

Not frozen: raising sets attributes on an exception, and ``contextlib`` does so from Python.
"""

from dataclasses import dataclass

from cri_proxy.foreign_text import admit

COMMAND_LINE = "command line"
"""The path of a ``ConfigError`` about options of the command line."""


class CriProxyError(Exception):
    """Base class of the errors that the daemon raises on purpose; plain where the problem is all there is to say."""

    def __init__(self, problem: str = "") -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        """The problem alone, where an error has nothing to add."""
        return self.problem


@dataclass(eq=False)
class CallFailed(CriProxyError):
    """The runtime answered our call with a status other than OK.

    ``code`` is the gRPC status number, ``message`` what ``http2.status.Failed`` has left of the runtime's words.
    """

    method: str
    code: int
    message: str

    def __str__(self) -> str:
        return f"{self.method}: status {self.code}: {self.message}"


class UnreadableReply(CallFailed):
    """The runtime answered OK with bytes that are not the method's message."""


@dataclass(eq=False)
class RuntimeUnavailable(CriProxyError):
    """The runtime is unreachable, or the connection broke before the answer: the outcome is unknown."""

    method: str
    problem: str

    def __post_init__(self) -> None:
        """Cut and clean what may hold the runtime's words, as those of its GOAWAY."""
        self.problem = admit(self.problem)

    def __str__(self) -> str:
        return f"{self.method}: the runtime is away: {self.problem}"


@dataclass(eq=False)
class UnreadableRequest(CriProxyError):
    """A request does not parse as the method's message: an error of the caller."""

    method: str
    problem: str

    def __str__(self) -> str:
        return f"{self.method}: the request cannot be read: {self.problem}"


@dataclass(eq=False)
class FileError(CriProxyError):
    """A file or directory cannot be used; ``problem`` includes the remedy."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class StoreError(FileError):
    """The state store cannot be read or written."""


class StoreUnavailable(StoreError):
    """The disk is at fault, not its content: full, read-only, broken. A later attempt may succeed."""


@dataclass(eq=False)
class ConfigError(CriProxyError):
    """A configuration is rejected; ``line`` 0 = unknown, ``problem`` includes the remedy."""

    path: str
    line: int
    key: str
    problem: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: {self.key}: {self.problem}" if self.key else f"{where}: {self.problem}"


@dataclass(eq=False)
class CommandFailed(CriProxyError):
    """Why a command has no result; it ends with this exit ``status``."""

    problem: str
    status: int = 1
