import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from cri_proxy.foreign_files.beneath import FileRefused, open_beneath, read_text
from tests.fakes.kubelet_volume import KubeletVolume

OUT = "is a link that leads out of its directory: put the file itself there"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a file, beside a secret and a directory that holds one."""
    (tmp_path / "d" / "inner").mkdir(parents=True)
    (tmp_path / "d" / "file").write_text("mine")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return tmp_path / "d"


def refused(path: Path) -> str:
    with pytest.raises(FileRefused) as caught:
        read_text(path, 100)
    return str(caught.value)


@pytest.mark.parametrize(
    "target", ["../outside/secret", "inner/../../outside/secret", "out/secret", "/{outside}/secret", "..", "/{d}/file"]
)
def test_a_link_that_leads_out_is_refused_also_where_it_comes_back(place: Path, target: str) -> None:
    (place / "out").symlink_to("../outside")
    (place / "a").symlink_to(target.format(outside=place.parent / "outside", d=place))
    assert refused(place / "a") == OUT


def test_a_directory_on_the_way_that_is_a_link_out_is_refused(place: Path) -> None:
    (place / "out").symlink_to("../outside")
    with open_beneath(place) as directory, pytest.raises(FileRefused, match="leads out"), directory.file("out/secret"):
        raise AssertionError


@pytest.mark.parametrize("target", ["file", "./file", "inner/../file", "inner/again", "inner//again"])
def test_a_link_that_stays_inside_is_followed(place: Path, target: str) -> None:
    (place / "inner" / "again").symlink_to("../file")
    (place / "a").symlink_to(target)
    assert read_text(place / "a", 100) == "mine"


def test_a_mounted_configmap_is_read_through_its_links(tmp_path: Path) -> None:
    KubeletVolume(tmp_path / "volume").write({"a": "1", "b": "2"})
    assert read_text(tmp_path / "volume" / "a", 100) == "1"
    with open_beneath(tmp_path / "volume") as directory:
        assert sorted(directory.names("..data")) == ["a", "b"]


def test_links_on_the_way_to_the_directory_are_followed(place: Path) -> None:
    (place.parent / "elsewhere").symlink_to(place)
    assert read_text(place.parent / "elsewhere" / "file", 100) == "mine"


def test_a_link_that_leads_nowhere_is_told_from_a_name_that_is_not_there(place: Path) -> None:
    (place / "a").symlink_to("gone")
    assert refused(place / "a") == "is a link that leads nowhere: remove it"
    with pytest.raises(FileNotFoundError):
        read_text(place / "gone", 100)


def test_links_in_a_circle_and_endless_ways_end(place: Path) -> None:
    (place / "circle").symlink_to("circle")
    (place / "long").symlink_to("inner/../" * 100 + "file")
    for name in ("circle", "long"):
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            read_text(place / name, 100)


@pytest.mark.timeout(20)
def test_directories_pipes_and_sockets_are_no_files(place: Path) -> None:
    os.mkfifo(place / "pipe")
    (place / "link").symlink_to("pipe")
    for name in ("inner", "pipe", "link"):
        assert refused(place / name) == "is not a regular file: put one there, or remove it"


def test_a_device_is_no_file() -> None:
    assert refused(Path("/dev/null")) == "is not a regular file: put one there, or remove it"


@pytest.mark.parametrize("target", ["file/../file", "file/.", "file/"])
def test_a_file_is_no_directory_on_the_way(place: Path, target: str) -> None:
    (place / "a").symlink_to(target)
    with pytest.raises(NotADirectoryError):
        read_text(place / "a", 100)


def test_the_file_that_was_found_is_read_whatever_has_its_name_by_then(place: Path) -> None:
    with open_beneath(place) as directory, directory.file("file") as file:
        (place / "file").unlink()
        (place / "file").symlink_to("../outside/secret")
        assert file.text(100) == "mine"


def test_a_name_that_is_swapped_all_the_time_never_shows_the_secret(place: Path) -> None:
    done = Event()
    swapping = Thread(target=swap, args=(place, done))
    swapping.start()
    try:
        seen = {found for _ in range(3000) for found in attempt(place)}
    finally:
        done.set()
        swapping.join()
    assert "secret" not in seen
    assert seen <= {"mine", OUT}


def swap(place: Path, done: Event) -> None:
    """Let a directory and a link to the one outside take turns under a name that another link goes through."""
    (place / "inner" / "secret").write_text("mine")
    (place / "a").symlink_to("turn/secret")
    while not done.is_set():
        for target in ("inner", "../outside"):
            (place / "next").symlink_to(target)
            (place / "next").rename(place / "turn")


def attempt(place: Path) -> Iterator[str]:
    with suppress(FileNotFoundError):
        try:
            yield read_text(place / "a", 100)
        except FileRefused as error:
            if "nowhere" not in error.problem:  # before the first turn
                yield error.problem


@pytest.mark.parametrize(
    ("content", "problem", "line"),
    [
        (b"x" * 11, "larger than 10 bytes: leave out what is not needed", 0),
        (b"a\nb\xff", "not UTF-8: save it as UTF-8 text", 2),
    ],
)
def test_a_text_has_bounds_and_a_code(place: Path, content: bytes, problem: str, line: int) -> None:
    (place / "file").write_bytes(content)
    with pytest.raises(FileRefused) as caught:
        read_text(place / "file", 10)
    assert (caught.value.problem, caught.value.line) == (problem, line)


def test_a_text_of_the_greatest_length_is_read(place: Path) -> None:
    (place / "file").write_text("0123456789")
    assert read_text(place / "file", 10) == "0123456789"


def test_a_file_of_a_terabyte_takes_no_memory(place: Path) -> None:
    with (place / "file").open("r+b") as file:
        file.truncate(1 << 40)
    assert refused(place / "file").startswith("larger than 100 bytes")


def test_another_file_of_the_same_size_and_time_has_another_stamp(place: Path) -> None:
    stamps = []
    for name in ("file", "other"):
        (place / name).write_text("mine")
        os.utime(place / name, (1, 1))
        with open_beneath(place) as directory, directory.file(name) as found:
            stamps.append(found.stamp)
    assert stamps[0] != stamps[1]


@pytest.mark.parametrize("path", ["/", "/proc", "/sys", "/tmp"])
def test_a_directory_is_told_by_its_status_and_its_mount(path: str) -> None:
    with open_beneath(Path(path)) as directory:
        assert os.path.samestat(directory.status, Path(path).stat())
        assert directory.is_read_only is bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def test_nothing_stays_open(place: Path) -> None:
    (place / "a").symlink_to("../outside/secret")
    before = set(Path("/proc/self/fd").iterdir())
    for name in ("a", "file", "inner", "gone"):
        with suppress(FileRefused, OSError):
            read_text(place / name, 100)
    with open_beneath(place) as directory:
        next(directory.names())
    assert set(Path("/proc/self/fd").iterdir()) == before
