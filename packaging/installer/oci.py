"""Write an image of one layer as an archive, as the OCI image layout 1.0 has it: the same files give the same bytes.

    oci.py DIRECTORY ARCHIVE.tar --architecture amd64 --name NAME:TAG -- ENTRY POINT...

Times are SOURCE_DATE_EPOCH, owners are root, names are sorted.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MEDIA = "application/vnd.oci.image"


def layer_of(directory: Path, seconds: int) -> tuple[bytes, str]:
    """Return the files of a directory as a compressed layer, and the digest of the layer before it is compressed."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(directory.rglob("*")):
            entry = archive.gettarinfo(path, str(path.relative_to(directory)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = seconds
            if entry.isfile():
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    return gzip.compress(plain.getvalue(), mtime=seconds), digest(plain.getvalue())


def digest(content: bytes) -> str:
    """Return the digest of a blob, as descriptors have it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def descriptor(kind: str, content: bytes) -> dict[str, Any]:
    """Return what refers to a blob."""
    return {"mediaType": f"{MEDIA}.{kind}", "digest": digest(content), "size": len(content)}


def files_of(
    layer: tuple[bytes, str], entry: Sequence[str], *, architecture: str, name: str, seconds: int
) -> Mapping[str, bytes]:
    """Return the files of the layout by their names."""
    compressed, diff_id = layer
    created = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = _json(
        {
            "architecture": architecture,
            "os": "linux",
            "created": created,
            "config": {
                "Entrypoint": [*entry],
                "Env": ["PATH=/usr/bin:/bin", "PYTHONNODEBUGRANGES=1"],
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [diff_id]},
            "history": [{"created": created, "created_by": "packaging/installer/build.sh"}],
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA}.manifest.v1+json",
            "config": descriptor("config.v1+json", config),
            "layers": [descriptor("layer.v1.tar+gzip", compressed)],
        }
    )
    repository, _, tag = name.rpartition(":")
    # containerd takes the whole name, others the tag alone.
    names = {
        "io.containerd.image.name": f"docker.io/library/{repository}:{tag}",
        "org.opencontainers.image.ref.name": tag,
    }
    platform = {"architecture": architecture, "os": "linux"}
    index = {**descriptor("manifest.v1+json", manifest), "platform": platform, "annotations": names}
    blobs = {f"blobs/sha256/{digest(each)[7:]}": each for each in (config, manifest, compressed)}
    return {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "mediaType": f"{MEDIA}.index.v1+json", "manifests": [index]}),
        **dict(sorted(blobs.items())),
    }


def write(archive: Path, files: Mapping[str, bytes], seconds: int) -> None:
    """Write the archive of these files."""
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as out:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), seconds
            out.addfile(entry, io.BytesIO(content))


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--architecture", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("entry", nargs="+")
    args = parser.parse_args()
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    layer = layer_of(args.directory, epoch)
    found = files_of(layer, args.entry, architecture=args.architecture, name=args.name, seconds=epoch)
    write(args.archive, found, epoch)
