import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from cri_proxy.config.files.location import ConfigLocation, FixedSource, Source, mount_warning
from cri_proxy.device_files.mounts import Mounts
from tests.fakes.kubelet_volume import KubeletVolume


def test_a_file_is_read_with_its_hash(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("adopt: pin\n")
    source = ConfigLocation(file).read()
    assert (source.file, source.text, source.problem) == (file, "adopt: pin\n", "")
    assert source.digest == sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("put", "problem"),
    [
        (lambda path: None, "cannot read: No such file"),
        (lambda path: path.write_bytes(b"a\n\xff"), "not UTF-8: byte 0xff"),
        (lambda path: path.write_bytes(b"#" * (1 << 20) + b"#"), "larger than 1048576 bytes"),
        (lambda path: path.mkdir(), "holds none of cri-proxy.yaml"),
        (lambda path: path.symlink_to(path.name), "cannot read: Too many levels of symbolic links"),
        (lambda path: path.symlink_to("missing"), "cannot read: No such file"),
        (os.mkfifo, "is not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
    ],
    ids=["absent", "binary", "huge", "directory", "loop", "dangling", "pipe", "device"],
)
def test_what_cannot_be_read_is_a_problem_and_never_holds_anybody_up(
    tmp_path: Path, put: Callable[[Path], object], problem: str
) -> None:
    put(tmp_path / "c")
    source = ConfigLocation(tmp_path / "c").read()
    assert problem in source.problem
    assert (source.text, source.digest) == ("", "")


def test_a_pipe_is_read_at_start(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"adopt: leave")
    os.close(writing)
    assert ConfigLocation(Path(f"/dev/fd/{reading}")).read(may_wait=True).text == "adopt: leave"
    os.close(reading)


def test_which_file_applies_may_change(tmp_path: Path) -> None:
    place = ConfigLocation(tmp_path, "w1")
    (tmp_path / "default.yaml").touch()
    assert place.read().file.name == "default.yaml"
    (tmp_path / "node.w1.yaml").touch()
    assert place.read().file.name == "node.w1.yaml"
    (tmp_path / "cri-proxy.yaml").touch()
    assert place.read().file.name == "cri-proxy.yaml"


PEERS = {"policy": "Active: none\n", "logger": "Debug: x\n"}


def put(directory: Path, **texts: str) -> ConfigLocation:
    for name, text in texts.items():
        (directory / name).write_text(text)
    return ConfigLocation(directory, "w1")


def test_where_no_file_applies_whole_the_files_of_cri_resource_manager_apply_together(tmp_path: Path) -> None:
    source = put(tmp_path, **PEERS, **{"node-group": "rt", ".policy.swp": "x", "policy~": "x"}).read()
    assert (source.file, source.group, source.problem) == (tmp_path, "rt", "")
    assert [part.file.name for part in source.parts] == ["logger", "policy"]


@pytest.mark.parametrize("name", ["cri-proxy.yaml", "node.w1", "group.rt", "default"])
def test_a_whole_file_comes_before_sections_and_its_name_may_lack_yaml(tmp_path: Path, name: str) -> None:
    source = put(tmp_path, **PEERS, **{"node-group": "rt", name: "adopt: leave"}).read()
    assert (source.file, source.text) == (tmp_path / name, "adopt: leave")


@pytest.mark.parametrize("files", [{"logger": ""}, {**PEERS, "node.w2": ""}, {**PEERS, "other.yaml": ""}])
def test_files_that_come_to_nothing_here_are_named(tmp_path: Path, files: dict[str, str]) -> None:
    problem = put(tmp_path, **files).read().problem
    names = "cri-proxy.yaml, node.w1.yaml, default.yaml"
    assert problem == f"holds none of {names}: put one of them there; found: {', '.join(sorted(files))}"


def test_sections_come_from_one_generation_of_the_volume(tmp_path: Path) -> None:
    volume, place = KubeletVolume(tmp_path / "v"), ConfigLocation(tmp_path / "v", "w1")
    for mark in ("old", "new", "newer"):
        for _ in volume.steps({"policy": mark, "logger": mark}):
            text = place.read().text
            assert sum(text.count(f"  {each}\n") for each in ("old", "new", "newer")) == text.count(" |1")
            assert len({each for each in ("old", "new", "newer") if f"  {each}\n" in text}) <= 1


def test_a_section_that_changes_or_comes_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("Active: none")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "policy").symlink_to("../real")
    lookups = ConfigLocation(tmp_path / "c").lookups()
    assert "real" in lookups[tmp_path]
    assert lookups[tmp_path / "c"] >= {"policy", "*"}
    assert "*" not in put(tmp_path, **{"default.yaml": ""}).lookups()[tmp_path]


def test_a_section_that_others_may_write_is_warned_of(tmp_path: Path) -> None:
    place = put(tmp_path, **PEERS)
    (tmp_path / "logger").chmod(0o666)
    assert [warning.partition(" has mode")[0] for warning in place.read().warnings] == [str(tmp_path / "logger")]


def test_a_link_that_leads_nowhere_does_not_let_a_lesser_file_apply(tmp_path: Path) -> None:
    (tmp_path / "default.yaml").touch()
    (tmp_path / "node.w1.yaml").symlink_to("..data/node.w1.yaml")
    source = ConfigLocation(tmp_path, "w1").read()
    assert source.file.name == "node.w1.yaml"
    assert "cannot read" in source.problem


def test_the_group_is_the_command_lines_or_that_of_the_file_beside(tmp_path: Path) -> None:
    (tmp_path / "group.a.yaml").touch()
    (tmp_path / "group.b.yaml").touch()
    (tmp_path / "node-group").write_text("b\n")
    found = [ConfigLocation(tmp_path, "w1", group).read() for group in ("a", "")]
    assert [(source.group, source.file.name) for source in found] == [("a", "group.a.yaml"), ("b", "group.b.yaml")]
    assert ConfigLocation(tmp_path / "group.a.yaml").read().group == "b"


@pytest.mark.parametrize(("text", "problem"), [("../x", "expected letters"), ("x" * 2000, "larger than 1024 bytes")])
def test_a_group_that_is_no_name_is_a_problem(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "default.yaml").touch()
    (tmp_path / "node-group").write_text(text)
    assert problem in ConfigLocation(tmp_path).read().problem


def test_after_every_step_of_the_kubelet_the_old_or_the_new_is_there(tmp_path: Path) -> None:
    volume, place = KubeletVolume(tmp_path / "v"), ConfigLocation(tmp_path / "v", "w1")
    volume.write({"default.yaml": "old"})
    seen = [place.read().text for _ in volume.steps({"default.yaml": "new"})]
    assert seen == ["old"] * 3 + ["new"] * 4


def test_group_and_file_come_from_one_generation_of_the_volume(tmp_path: Path) -> None:
    """The agent swaps both at once: no look sees the group of the one with the file of the other."""
    volume, place = KubeletVolume(tmp_path / "v"), ConfigLocation(tmp_path / "v")
    for group in ("a", "b", "a", "b"):
        data = {"node-group": group, f"group.{group}.yaml": group, "default.yaml": "none"}
        for _ in volume.steps(data):
            source = place.read()
            assert source.group == source.text or source.problem


def test_every_directory_on_the_way_is_looked_at_links_included(tmp_path: Path) -> None:
    KubeletVolume(tmp_path / "v").write({"default.yaml": ""})
    (tmp_path / "here").symlink_to("v")
    lookups = ConfigLocation(tmp_path / "here").lookups()
    assert lookups[tmp_path] == {"here", "v", "node-group"}
    assert lookups[tmp_path / "v"] >= {"..data", "default.yaml", "cri-proxy.yaml", "node-group"}
    assert "default.yaml" in lookups[(tmp_path / "v" / "..data").resolve()]
    assert lookups[Path("/")] == {tmp_path.parts[1]}


def test_of_what_is_missing_the_directory_in_which_it_would_appear_is_looked_at(tmp_path: Path) -> None:
    lookups = ConfigLocation(tmp_path / "etc" / "x" / "c.yaml").lookups()
    assert lookups[tmp_path] == {"etc"}
    assert tmp_path / "etc" not in lookups


def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert ConfigLocation(tmp_path / "a").lookups()[tmp_path] >= {"a", "b"}


@pytest.mark.parametrize("name", ["x" * 300, "a\nb", "loop"])
def test_no_path_is_too_odd_to_be_looked_at(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    place = ConfigLocation(tmp_path / name / "c.yaml")
    assert tmp_path in place.lookups()
    assert "cannot read" in place.read().problem
    assert place.read().warnings == ()


def test_without_a_file_there_is_nothing_to_look_at() -> None:
    source = Source(Path("command line"), "")
    assert (FixedSource(source).read(), FixedSource(source).lookups()) == (source, {})


@pytest.mark.parametrize(("mode", "is_warned_of"), [(0o600, False), (0o644, False), (0o664, True), (0o646, True)])
@pytest.mark.parametrize("name", ["cri-proxy.yaml", "node-group"])
def test_a_file_that_others_may_write_is_warned_of(tmp_path: Path, name: str, mode: int, is_warned_of: bool) -> None:
    (tmp_path / "cri-proxy.yaml").touch(mode=0o600)
    (tmp_path / name).touch()
    (tmp_path / name).chmod(mode)
    (tmp_path / "default.yaml").touch(mode=0o666)  # does not apply
    warning = f"{tmp_path / name} has mode {mode:04o}, others may write to it: chmod go-w {tmp_path / name}"
    assert ConfigLocation(tmp_path).read().warnings == ((warning,) if is_warned_of else ())
    (tmp_path / "node-group").unlink(missing_ok=True)
    assert ConfigLocation(tmp_path / "cri-proxy.yaml").read().warnings == (
        (warning,) if is_warned_of and "yaml" in name else ()
    )


ROOT = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"

POD = "/var/lib/kubelet/pods/0a1b"

VOLUME = f"{POD}/volumes/kubernetes.io~configmap/config"


def line(root: str, point: Path | str) -> str:
    text = str(point).replace(" ", "\\040")
    return f"42 27 254:0 {root} {text} rw,relatime - ext4 /dev/vda rw\n"


def mounts(text: str) -> Mounts:
    return Mounts.parse(text.encode().splitlines())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "c.yaml").touch()
    return tmp_path / "a b" / "c.yaml"


@pytest.mark.parametrize(
    "root",
    [
        f"{VOLUME}/..2026_01_02_03_04_05.123456789/c.yaml",
        f"{VOLUME}/..2026_01_02_03_04_05.123456789/c.yaml//deleted",
        "/..2026_01_02_03_04_05.123456789/c.yaml",
        f"{POD}/volume-subpaths/config/app/0",
    ],
    ids=["configmap", "old generation", "projected", "subpaths"],
)
def test_a_subpath_mount_is_told(file: Path, root: str) -> None:
    assert "mounted with subPath" in mount_warning(file, mounts(ROOT + line(root, file)))


def test_a_subpath_mount_of_a_directory_is_told(file: Path) -> None:
    root = f"{VOLUME}/..2026_01_02_03_04_05.123456789/inner"
    assert "mounted with subPath" in mount_warning(file, mounts(ROOT + line(root, file.parent)))


def test_the_whole_volume_is_fine(file: Path) -> None:
    for root in (VOLUME, "/"):
        assert not mount_warning(file, mounts(ROOT + line(root, file.parent)))


def test_a_file_that_is_mounted_alone_from_the_host_is_told(file: Path) -> None:
    assert "bind mount of a single file" in mount_warning(file, mounts(ROOT + line("/etc/c.yaml", file)))


def test_other_mounts_say_nothing(file: Path) -> None:
    more = line(f"{VOLUME}/..2026_01_02_03_04_05.123456789/c.yaml", file.parent / "other.yaml")
    assert not mount_warning(file, mounts(ROOT + more))
    assert not mount_warning(file, mounts(""))


def test_of_two_mounts_on_one_point_the_later_counts(file: Path) -> None:
    old = line(f"{VOLUME}/..2026_01_02_03_04_05.123456789", file.parent)
    assert not mount_warning(file, mounts(ROOT + old + line(VOLUME, file.parent)))


def test_this_process_has_mounts_and_the_file_is_on_none_of_its_own(file: Path) -> None:
    assert not mount_warning(file, Mounts.read())
