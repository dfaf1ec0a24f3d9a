import socket
from itertools import pairwise
from pathlib import Path

from cri_proxy.kubelet.device_plugin.plugin import (
    PluginDirectory,
    PluginSockets,
    StreamLosses,
    register,
    retry_seconds,
    socket_id,
)
from cri_proxy.kubelet.device_plugin.settings import PluginResource


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as found:
        found.bind(str(path))


def test_another_socket_under_the_name_is_another_kubelet(tmp_path: Path) -> None:
    """A file system gives the inode that was freed last to the next file."""
    path, seen = tmp_path / "kubelet.sock", set()
    for _ in range(5):
        bind(path)
        seen.add(socket_id(path))
        path.unlink()
    assert len(seen) == 5
    assert socket_id(path) is None


def test_the_directory_tells_of_the_kubelet_and_of_what_is_missing(tmp_path: Path) -> None:
    directory = PluginDirectory(tmp_path / "plugins", ["a.sock"], lambda: frozenset({"a.sock"}))
    assert directory.read() == PluginSockets(None, frozenset({"a.sock"}))
    assert "plugins" in directory.lookups()[tmp_path]
    (tmp_path / "plugins").mkdir()
    bind(tmp_path / "plugins" / "kubelet.sock")
    assert directory.read().kubelet is not None
    assert directory.lookups()[tmp_path / "plugins"] == {"kubelet.sock", "a.sock"}


async def test_a_kubelet_that_is_away_is_named_with_the_resource(tmp_path: Path) -> None:
    bind(tmp_path / "kubelet.sock")
    problem = await register(tmp_path, PluginResource("gpu", "x.io/gpu"))
    assert problem.startswith("x.io/gpu: the kubelet does not register it: unavailable: ")


def test_pauses_grow_up_to_a_bound() -> None:
    pauses = [retry_seconds(failures) for failures in range(1, 20)]
    assert all(one <= other for one, other in pairwise(pauses))
    assert (pauses[0], pauses[-1]) == (1.0, 30.0)


def test_streams_that_break_off_at_once_are_counted_until_one_lives_longer() -> None:
    losses = StreamLosses()
    assert [losses.one_more(now) for now in (0.0, 1.0, 3.0, 50.0, 110.0)] == [1, 2, 3, 4, 1]
