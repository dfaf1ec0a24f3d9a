import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.config.files.configmap_volume import VolumeError, publish, published
from cri_proxy.config.files.location import ConfigLocation
from tests.fakes.kubelet_volume import KubeletVolume

FILES = st.dictionaries(st.sampled_from(["a.yaml", "b.yaml", "node-group"]), st.binary(max_size=8))


def held(directory: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in directory.iterdir() if not p.name.startswith("..")}


def generations(directory: Path) -> list[str]:
    return [p.name for p in directory.iterdir() if p.name.startswith("..2")]


@given(
    st.lists(st.dictionaries(st.sampled_from(["a.yaml", "b.yaml", "node-group"]), st.binary(max_size=8)), max_size=4)
)
@settings(max_examples=25, deadline=None)
def test_after_any_history_it_holds_the_last_and_no_more(
    tmp_path_factory: pytest.TempPathFactory, history: list[dict[str, bytes]]
) -> None:
    directory = tmp_path_factory.mktemp("v")
    for files in history:
        publish(directory, files)
        assert held(directory) == files
        assert len(generations(directory)) == 1
        assert {p.name for p in directory.iterdir()} == {*files, "..data", *generations(directory)}


def test_it_is_laid_out_as_the_kubelet_does(tmp_path: Path) -> None:
    files = {"default.yaml": "a", "node-group": "b"}
    KubeletVolume(tmp_path / "kubelet").write(files)
    publish(tmp_path / "ours", {name: text.encode() for name, text in files.items()})

    def layout(directory: Path) -> dict[str, str]:
        links = {p.name: str(p.readlink()) for p in directory.iterdir() if p.is_symlink()}
        return links | {"..data": stat.filemode((directory / "..data").stat().st_mode)}

    assert layout(tmp_path / "ours") == layout(tmp_path / "kubelet")


def test_what_is_there_already_is_not_written_again(tmp_path: Path) -> None:
    assert publish(tmp_path / "v", {"a": b"1"})
    before = generations(tmp_path / "v")
    assert not publish(tmp_path / "v", {"a": b"1"})
    assert generations(tmp_path / "v") == before


def test_readers_see_whole_generations_only(tmp_path: Path) -> None:
    """Under a reader that looks all the time, the group and its file always belong together."""
    done, seen = threading.Event(), set()

    def look() -> None:
        while not done.is_set():
            source = ConfigLocation(tmp_path / "v").read()
            seen.add((source.group, source.text or source.problem))

    publish(tmp_path / "v", {"node-group": b"g0", "group.g0.yaml": b"g0"})
    reader = threading.Thread(target=look)
    reader.start()
    for i in range(1, 60):
        publish(tmp_path / "v", {"node-group": b"g%d" % (i % 3), f"group.g{i % 3}.yaml": b"g%d" % (i % 3)})
    done.set()
    reader.join()
    assert seen <= {("g0", "g0"), ("g1", "g1"), ("g2", "g2")}


def test_what_a_killed_process_left_is_cleared_away(tmp_path: Path) -> None:
    publish(tmp_path, {"a": b"1"})
    (tmp_path / "..2026_01_02_03_04_05.000000001").mkdir()
    (tmp_path / "..2026_01_02_03_04_05.000000001" / "half").write_text("x")
    (tmp_path / "..data_tmp").symlink_to("..2026_01_02_03_04_05.000000001")
    publish(tmp_path, {"a": b"2"})
    assert {p.name for p in tmp_path.iterdir()} == {"a", "..data", *generations(tmp_path)}
    assert len(generations(tmp_path)) == 1


def test_what_somebody_changed_in_the_copy_is_put_right(tmp_path: Path) -> None:
    publish(tmp_path, {"a": b"1", "b": b"2"})
    (tmp_path / "..data" / "a").write_bytes(b"x")
    (tmp_path / "b").unlink()
    assert publish(tmp_path, {"a": b"1", "b": b"2"})
    assert held(tmp_path) == {"a": b"1", "b": b"2"}


def a_link(path: Path) -> None:
    path.with_name("other").mkdir()
    path.symlink_to("other")


def shared(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def foreign(path: Path) -> None:
    path.mkdir()
    os.chown(path, 12345, 0)


def own_file(path: Path) -> None:
    path.mkdir()
    (path / "a").write_text("by hand")


def link_out(path: Path) -> None:
    path.mkdir()
    (path / "a").symlink_to("/etc/passwd")


def data_out(path: Path) -> None:
    path.mkdir()
    (path / "..data").symlink_to("/etc")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize(
    ("put", "problem"),
    [
        (a_link, "is a symbolic link"),
        (shared, "has mode 0777, others may write to it"),
        (foreign, "belongs to user 12345"),
        (own_file, "a: was not written by cri-proxy config-agent: remove it"),
        (link_out, "a: was not written by cri-proxy config-agent: remove it"),
        (data_out, "..data: was not written by cri-proxy config-agent: remove it"),
        (Path.touch, "cannot write: File exists"),
    ],
)
def test_a_target_that_is_not_its_own_is_refused_untouched(
    tmp_path: Path, put: Callable[[Path], None], problem: str
) -> None:
    put(tmp_path / "v")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(VolumeError) as refused:
        publish(tmp_path / "v", {"a": b"1"})
    assert problem in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_files_can_be_read_by_everybody_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        publish(tmp_path, {"a": b"1"})
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "..data").stat().st_mode) == 0o755


def test_what_was_written_last_is_read_again(tmp_path: Path) -> None:
    assert published(tmp_path / "d") is None
    for files in ({"a": b"1", "b": b""}, {"a": b"2"}):
        publish(tmp_path / "d", files)
        assert published(tmp_path / "d") == files
    (tmp_path / "d" / "..data").unlink()
    assert published(tmp_path / "d") is None
    (tmp_path / "d" / "..data").symlink_to("/etc")
    assert published(tmp_path / "d") is None
