"""Find the kubelet's registration socket, notice when a kubelet that has restarted makes another, and register there.

The kubelet removes all sockets of its plugin directory when it starts, and then makes its own: each plugin has to open
its socket again and register. Source: devicemanager of the kubelet, v1.36.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from grpc import aio

from cri_proxy.foreign_text import admit
from cri_proxy.in_force.symlinks import Lookups, directories_to_watch
from cri_proxy.kubelet.device_plugin.resource import OPTIONS
from cri_proxy.kubelet.device_plugin.settings import PluginResource
from cri_proxy.kubelet.proto import deviceplugin_v1beta1_pb2 as pb

KUBELET_SOCKET: Final = "kubelet.sock"
VERSION: Final = "v1beta1"
REGISTER_SECONDS: Final = 15.0
"""For an answer: the kubelet connects to the plugin first, for which it takes up to ten seconds."""
RETRY_SECONDS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""After each failed attempt; the last one holds for all that follow."""

_CHANNEL_OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.default_authority", "localhost"),
)

SocketId = tuple[int, int, int]
"""Device, inode and time of change: another file has another of them, be its inode the one that was freed last."""


@dataclass(frozen=True, slots=True)
class PluginSockets:
    """The plugin directory's sockets: the kubelet's socket (None: there is none), and our own that are missing."""

    kubelet: SocketId | None
    missing: frozenset[str] = frozenset()


class PluginDirectory:
    """The directory as ``in_force.watch.BlockingPlace``."""

    def __init__(self, path: Path, endpoints: Iterable[str], missing: Callable[[], frozenset[str]]) -> None:
        """``endpoints`` are the names that our sockets may have; ``missing`` returns those that are not in place."""
        self.path = path
        self._names = (KUBELET_SOCKET, *endpoints)
        self._missing = missing

    def read(self) -> PluginSockets:
        """Return what is there now. Blocks; raises nothing."""
        return PluginSockets(socket_id(self.path / KUBELET_SOCKET), self._missing())

    def lookups(self) -> Lookups:
        """Return the directories on the way to the sockets, with the names that matter there."""
        found = directories_to_watch(self.path / name for name in self._names)
        return {directory: frozenset(names) for directory, names in found.items()}


def socket_id(path: Path) -> SocketId | None:
    """Return the identity of this socket, which another one under its name does not have; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


async def register(directory: Path, resource: PluginResource) -> str:
    """Tell the kubelet of a resource, whose socket is open; return why it does not take it, '' where it does.

    The kubelet's words are cut and cleaned.
    """
    request = pb.RegisterRequest(
        version=VERSION, endpoint=resource.endpoint, resource_name=resource.name, options=OPTIONS
    )
    async with aio.insecure_channel(f"unix:{directory / KUBELET_SOCKET}", options=_CHANNEL_OPTIONS) as channel:
        call = channel.unary_unary(
            "/v1beta1.Registration/Register", pb.RegisterRequest.SerializeToString, pb.Empty.FromString
        )
        try:
            await call(request, timeout=REGISTER_SECONDS)
        except aio.AioRpcError as error:
            problem = f"{error.code().name.lower()}: {error.details() or 'no reason given'}"
            return f"{resource.name}: the kubelet does not register it: {admit(problem)}"
    return ""


def retry_seconds(failures: int) -> float:
    """Return how long to wait after so many failures in a row.

    >>> retry_seconds(1), retry_seconds(100)
    (1.0, 30.0)
    """
    return RETRY_SECONDS[min(failures, len(RETRY_SECONDS)) - 1]


class StreamLosses:
    """Streams that the kubelet has broken off: a kubelet that does so at once each time is not asked each second."""

    def __init__(self) -> None:
        """Start with none."""
        self._count = 0
        self._last_seconds = 0.0

    def one_more(self, now_seconds: float) -> int:
        """Return how many there were in a row, this one too; after a longer life of a stream counting begins again."""
        is_soon = now_seconds - self._last_seconds < 2 * RETRY_SECONDS[-1]
        self._count = self._count + 1 if self._count and is_soon else 1
        self._last_seconds = now_seconds
        return self._count
