"""Files that are mounted alone. The lines are what a kernel shows for bind mounts of bind mounts."""

from pathlib import Path

import pytest

from cri_proxy.config.files.location import mount_warning, own_mounts

ROOT = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
POD = "/var/lib/kubelet/pods/0a1b"
VOLUME = f"{POD}/volumes/kubernetes.io~configmap/config"


def line(root: str, point: Path | str) -> str:
    text = str(point).replace(" ", "\\040")
    return f"42 27 254:0 {root} {text} rw,relatime - ext4 /dev/vda rw\n"


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
    assert "mounted with subPath" in mount_warning(file, ROOT + line(root, file))


def test_a_subpath_mount_of_a_directory_is_told(file: Path) -> None:
    root = f"{VOLUME}/..2026_01_02_03_04_05.123456789/inner"
    assert "mounted with subPath" in mount_warning(file, ROOT + line(root, file.parent))


def test_the_whole_volume_is_fine(file: Path) -> None:
    for root in (VOLUME, "/"):
        assert not mount_warning(file, ROOT + line(root, file.parent))


def test_a_file_that_is_mounted_alone_from_the_host_is_told(file: Path) -> None:
    assert "bind mount of a single file" in mount_warning(file, ROOT + line("/etc/c.yaml", file))


def test_other_mounts_say_nothing(file: Path) -> None:
    more = line(f"{VOLUME}/..2026_01_02_03_04_05.123456789/c.yaml", file.parent / "other.yaml")
    assert not mount_warning(file, ROOT + more)
    assert not mount_warning(file, "")


def test_of_two_mounts_on_one_point_the_later_counts(file: Path) -> None:
    old = line(f"{VOLUME}/..2026_01_02_03_04_05.123456789", file.parent)
    assert not mount_warning(file, ROOT + old + line(VOLUME, file.parent))


def test_this_process_has_mounts_and_the_file_is_on_none_of_its_own(file: Path) -> None:
    assert not mount_warning(file, own_mounts())
