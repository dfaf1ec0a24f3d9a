"""The installer's image: built without an engine, taken by containerd, and at home where there is nothing else.

tests/vm/test_untouched_node.py installs with it.
"""

import json
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.installer_image import build_image
from tests.testbed.containerd import PrivateContainerd

# The first test waits for an image that is built.
pytestmark = pytest.mark.timeout(900)

MACHINES = {"amd64": 62, "arm64": 183}  # EM_X86_64, EM_AARCH64
MODULES = "ssl, sqlite3, ctypes, lzma, grpc, yaml, psutil, google._upb._message"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_image(tmp_path_factory.mktemp("installer"))


@pytest.fixture(scope="module")
def unpacked(image: Path) -> Path:
    """The one layer of the image: a root with nothing in it but the release."""
    return layer_of(image)[0]


def layer_of(image: Path) -> tuple[Path, str]:
    """The files of an image's one layer, and its architecture."""
    root = image.parent / "root"
    with tarfile.open(image) as archive:
        manifest = read_json(archive, read_json(archive, "index.json")["manifests"][0]["digest"])
        (layer,) = manifest["layers"]
        with tarfile.open(fileobj=archive.extractfile(f"blobs/sha256/{layer['digest'][7:]}"), mode="r:gz") as files:
            files.extractall(root, filter="tar")
        return root, read_json(archive, manifest["config"]["digest"])["architecture"]


def read_json(archive: tarfile.TarFile, name: str) -> dict[str, Any]:
    file = archive.extractfile(name if ":" not in name else f"blobs/sha256/{name[7:]}")
    assert file
    found: dict[str, Any] = json.load(file)
    return found


def release_of(root: Path) -> str:
    (place,) = (root / "opt/cri-proxy").iterdir()
    return f"/opt/cri-proxy/{place.name}"


def inside(root: Path, *words: str) -> str:
    done = subprocess.run(["chroot", root, *words], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_program_runs_where_there_is_no_python_and_no_library(unpacked: Path) -> None:
    assert [path.name for path in unpacked.iterdir()] == ["opt"]
    release = release_of(unpacked)
    python = f"{release}/bin/python3"
    assert inside(unpacked, python, "-IS", f"{release}/lib/cri-proxy/cri-proxy", "--version").startswith(
        "cri-proxy 0.1.0"
    )
    code = f"import sys; sys.path.insert(0, '{release}/lib/cri-proxy'); import {MODULES}; print(sys.executable)"
    assert inside(unpacked, python, "-IS", "-c", code) == f"{python}\n"


def test_nothing_in_it_is_looked_for_elsewhere(unpacked: Path) -> None:
    assert missing_libraries(unpacked) == {}


def missing_libraries(unpacked: Path) -> dict[str, set[str]]:
    """The libraries that files of an image need and that are not in it."""
    library = unpacked / release_of(unpacked)[1:] / "lib"
    there = {path.name for path in library.iterdir()} | {path.name for path in library.rglob("*.so*")}
    missing = {}
    for path in [*library.rglob("*.so*"), *(library.parent / "bin").glob("python3.*")]:
        if path.is_symlink():
            continue
        said = subprocess.run(["patchelf", "--print-needed", path], check=True, capture_output=True, text=True).stdout
        if lost := {*said.split()} - there:
            missing[path.name] = lost
    return missing


def test_one_for_the_other_architecture_is_whole_too(image: Path, tmp_path: Path) -> None:
    other = {"amd64": "arm64", "arm64": "amd64"}[image.name.removesuffix(".oci.tar").rpartition("_")[2]]
    root, architecture = layer_of(build_image(tmp_path, other))
    machines = {machine(path) for path in root.rglob("*") if path.is_file() and not path.is_symlink()} - {0}
    assert (architecture, machines, missing_libraries(root)) == (other, {MACHINES[other]}, {})
    place = root / release_of(root)[1:] / "lib"
    assert [*place.glob("cri-proxy/cri_proxy/__pycache__/*.pyc")] and [*place.glob("python3.*/__pycache__/*.pyc")]


def machine(path: Path) -> int:
    """The machine that an ELF file is for (e_machine); 0 for another file."""
    with path.open("rb") as file:
        head = file.read(20)
    return int.from_bytes(head[18:20], "little") if head[:4] == b"\x7fELF" else 0


def test_it_brings_the_units_of_the_host_and_says_what_it_is_made_of(unpacked: Path) -> None:
    place = unpacked / release_of(unpacked)[1:]
    unit = (place / "host/cri-proxy.service").read_text()
    start = "/opt/cri-proxy/current/bin/cri-proxy run --config /etc/cri-proxy/cri-proxy.yaml@OPTIONS@ $CRI_PROXY_ARGS"
    assert f"\nExecStart={start}\n" in unit and "/usr/bin/cri-proxy" not in unit
    packages = (place / "share/debian-packages").read_text()
    for name in re.findall(r"^(\S+) ", packages, re.MULTILINE):
        assert (place / "share/doc" / name / "copyright").exists(), name
    assert json.loads((place / "share/sbom.cdx.json").read_text())["components"]


async def test_containerd_takes_the_image_and_runs_it(image: Path, tmp_path: Path) -> None:
    async with PrivateContainerd(tmp_path / "c") as containerd:
        containerd.ctr("images", "import", str(image))
        mounted = tmp_path / "m"
        mounted.mkdir()
        containerd.ctr("images", "mount", "docker.io/library/cri-proxy-installer:0.1.0", str(mounted))
        try:
            release = release_of(mounted)
            said = inside(
                mounted, f"{release}/bin/python3", "-IS", f"{release}/lib/cri-proxy/cri-proxy", "installer", "--help"
            )
            assert "cri-proxy.io/node" in said
        finally:
            subprocess.run(["umount", mounted], check=True)
