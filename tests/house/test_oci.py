"""The image that is written without an engine: descriptors fit their blobs, and the same files give the same bytes."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from tests.house.tree import ROOT

SCRIPT = ROOT / "packaging" / "installer" / "oci.py"


def written(directory: Path, archive: Path) -> dict[str, bytes]:
    """The files of the archive by name."""
    words = f"{sys.executable} {SCRIPT} {directory} {archive} --architecture arm64 --name a/b:1 -- /bin/x -y"
    subprocess.run(words.split(), check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "86400"})
    with tarfile.open(archive) as found:
        return {entry.name: found.extractfile(entry).read() for entry in found}  # type: ignore[union-attr]


def made(directory: Path) -> Path:
    (directory / "opt").mkdir(parents=True)
    (directory / "opt" / "program").write_text("#!/bin/sh\n")
    (directory / "opt" / "program").chmod(0o755)
    (directory / "opt" / "link").symlink_to("program")
    return directory


def test_every_descriptor_fits_its_blob(tmp_path: Path) -> None:
    files = written(made(tmp_path / "tree"), tmp_path / "image.tar")

    def blob(descriptor: dict[str, Any]) -> bytes:
        content = files[f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}"]
        assert hashlib.sha256(content).hexdigest() == descriptor["digest"].removeprefix("sha256:")
        assert len(content) == descriptor["size"]
        return content

    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (manifest,) = json.loads(files["index.json"])["manifests"]
    assert manifest["platform"] == {"architecture": "arm64", "os": "linux"}
    assert manifest["annotations"]["io.containerd.image.name"] == "docker.io/library/a/b:1"
    assert manifest["annotations"]["org.opencontainers.image.ref.name"] == "1"
    image = json.loads(blob(manifest))
    config = json.loads(blob(image["config"]))
    assert (config["created"], config["config"]["Entrypoint"]) == ("1970-01-02T00:00:00Z", ["/bin/x", "-y"])
    (layer,) = image["layers"]
    with tarfile.open(fileobj=io.BytesIO(blob(layer)), mode="r:gz") as unpacked:
        entries = {entry.name: (entry.mode & 0o777, entry.uid, entry.uname, entry.linkname) for entry in unpacked}
    assert entries["opt/program"] == (0o755, 0, "root", "")
    assert entries["opt/link"][3] == "program"
    assert len(files) == 5


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    written(made(tmp_path / "one"), tmp_path / "one.tar")
    other = made(tmp_path / "two")
    os.utime(other / "opt" / "program", (1, 1))
    written(other, tmp_path / "two.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
