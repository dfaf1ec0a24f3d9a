import hashlib
import io
import json
import struct
import tarfile
from pathlib import Path

import pytest

from cri_proxy.cri_client.pods import IMAGE
from tests.testbed.errors import TryoutError
from tests.testbed.image import docker_archive, is_dynamic, write_image


def member(archive: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        found = tar.extractfile(name)
        assert found is not None
        return found.read()


def elf(kind: int) -> bytes:
    header = b"\x7fELF\x02\x01" + bytes(26) + struct.pack("<Q", 64) + bytes(14) + struct.pack("<HH", 56, 1)
    return header.ljust(64, b"\0") + struct.pack("<I", kind) + bytes(52)


def test_the_manifest_names_the_image_its_configuration_and_its_layer() -> None:
    archive = docker_archive(b"program")
    (manifest,) = json.loads(member(archive, "manifest.json"))
    layer = member(archive, manifest["Layers"][0])
    configuration = json.loads(member(archive, manifest["Config"]))
    assert manifest["RepoTags"] == [IMAGE]
    assert configuration["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]


def test_applets_are_links_to_the_one_program() -> None:
    archive = docker_archive(b"program")
    layer = member(archive, json.loads(member(archive, "manifest.json"))[0]["Layers"][0])
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        assert tar.getmember("bin/sleep").linkname == "busybox"
    assert member(layer, "bin/busybox") == b"program"


def test_the_same_program_gives_the_same_image() -> None:
    assert docker_archive(b"program") == docker_archive(b"program")


@pytest.mark.parametrize(("kind", "dynamic"), [(1, False), (3, True)])
def test_a_program_that_asks_for_an_interpreter_is_dynamic(kind: int, dynamic: bool) -> None:
    assert is_dynamic(elf(kind)) is dynamic


def test_a_missing_busybox_is_an_error_that_names_the_package(tmp_path: Path) -> None:
    with pytest.raises(TryoutError, match="apt-get install busybox-static"):
        write_image(tmp_path / "image.tar", busybox=tmp_path / "none")


def test_a_dynamic_busybox_is_refused(tmp_path: Path) -> None:
    (tmp_path / "busybox").write_bytes(elf(3))
    with pytest.raises(TryoutError, match="needs shared libraries"):
        write_image(tmp_path / "image.tar", busybox=tmp_path / "busybox")
