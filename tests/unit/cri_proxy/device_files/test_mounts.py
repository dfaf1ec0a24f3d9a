from pathlib import Path

import pytest

from cri_proxy.device_files.mounts import Mount, Mounts, subjects_of

MOUNTS = Mounts.parse(
    [
        b"25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw",
        b"26 25 0:5 / /dev rw - devtmpfs udev rw",
        b"60 25 0:52 / /pods/1/vol rw shared:4 master:1 - nfs4 host:/export rw",
        b"61 25 0:52 /sub /pods/2/vol\\040a rw - nfs4 host:/export rw",
        b"62 25 259:2 / /data rw - xfs /dev/nvme0n1p2 rw",
        b"63 25 0:60 / /data rw - fuse.sshfs host: rw",
        b"64 25 0:61 / / rw - overlay overlay rw",
        b"",
        b"garbage - line",
    ]
)


@pytest.mark.parametrize(
    ("path", "number", "is_remote"),
    [
        ("/etc", "0:61", False),  # the root is mounted over
        ("/dev/nvme0n1", "0:5", False),
        ("/pods/1/vol", "0:52", True),
        ("/pods/1/vol/deep/./er", "0:52", True),
        ("/pods/1/volume", "0:61", False),
        ("/pods/2/vol a/x", "0:52", True),
        ("/data/x", "0:60", True),  # the later one of two
        ("/pods/1/vol/../../x", "0:61", False),
    ],
)
def test_a_path_lies_on_the_mount_of_the_nearest_directory(path: str, number: str, is_remote: bool) -> None:
    found = MOUNTS.of(path)
    assert found is not None
    assert (found.number, found.is_remote) == (number, is_remote)


def test_without_mounts_a_path_lies_on_none() -> None:
    assert (Mounts({}).of("/a"), Mounts({}).of("a")) == (None, None)


def test_a_disk_that_is_shared_by_name_is_local() -> None:
    assert not Mount("259:1", "ocfs2").is_remote


def test_a_local_path_hangs_by_itself_and_a_relative_one_is_one_below_the_root() -> None:
    assert subjects_of(Path("/"), ("/usr", "/etc/x\0y", "")) == ("/usr", "/etc/x\0y", "")
