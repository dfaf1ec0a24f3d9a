"""Build the container image of pause and test containers from a static busybox, as a ``docker save`` tar file.

A machine without a network cannot pull one. The layout is what ``docker save`` writes: a configuration, one layer, and
``manifest.json`` that names both.
"""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

from cri_proxy.cri_client.pods import IMAGE
from tests.testbed.errors import TryoutError

BUSYBOX = Path("/bin/busybox")
# pause must not end: containerd starts the sandbox with the image's own entry point
ENTRYPOINT = ("/bin/sleep", "1000000")
APPLETS = (
    "sh sleep cat echo ls grep sed awk tail head true false kill ps env mkdir rm cp mv dd seq nproc taskset date "
    "hostname id wc sort tr cut yes touch sync stat mount umount top free test expr trap"
)
DIRECTORIES = ("bin", "dev", "etc", "proc", "sys", "tmp", "root")
# Names of processors in image configurations: those of Go (GOARCH), not of uname
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x", "riscv64": "riscv64"}


def docker_archive(busybox: bytes) -> bytes:
    """Return the image as the bytes of a tar; the same busybox gives the same bytes."""
    layer = _layer(busybox)
    layer_digest = hashlib.sha256(layer).hexdigest()
    machine = platform.machine()
    configuration = json.dumps(
        {
            "architecture": ARCHITECTURES.get(machine, machine),
            "os": "linux",
            "config": {"Entrypoint": list(ENTRYPOINT), "Env": ["PATH=/bin"], "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        }
    ).encode()
    configuration_name = hashlib.sha256(configuration).hexdigest() + ".json"
    layer_name = f"{layer_digest}/layer.tar"
    manifest = json.dumps([{"Config": configuration_name, "RepoTags": [IMAGE], "Layers": [layer_name]}]).encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in ((configuration_name, configuration), (layer_name, layer), ("manifest.json", manifest)):
            _add_file(archive, name, data, mode=0o644)
    return buffer.getvalue()


def write_image(path: Path, *, busybox: Path = BUSYBOX) -> None:
    """Write the image to a file. Raises TryoutError when there is no busybox, or one that needs libraries."""
    try:
        program = busybox.read_bytes()
    except OSError as error:
        raise TryoutError(str(busybox), error.strerror or str(error), "apt-get install busybox-static") from None
    if is_dynamic(program):
        raise TryoutError(str(busybox), "needs shared libraries", "apt-get install busybox-static")
    path.write_bytes(docker_archive(program))


def is_dynamic(program: bytes) -> bool:
    """Return True when a 64-bit little-endian ELF file has an interpreter (PT_INTERP, elf(5)), so is not static."""
    if program[:6] != b"\x7fELF\x02\x01":
        return False
    offset = int.from_bytes(program[32:40], "little")
    entry_bytes = int.from_bytes(program[54:56], "little")
    count = int.from_bytes(program[56:58], "little")
    headers = (program[offset + i * entry_bytes :][:4] for i in range(count))
    return any(int.from_bytes(kind, "little") == 3 for kind in headers)


def _layer(busybox: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for name in DIRECTORIES:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            layer.addfile(entry)
        _add_file(layer, "bin/busybox", busybox, mode=0o755)
        for applet in APPLETS.split():
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.mode, entry.linkname = tarfile.SYMTYPE, 0o777, "busybox"
            layer.addfile(entry)
        _add_file(layer, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", mode=0o644)
        _add_file(layer, "etc/group", b"root:x:0:\n", mode=0o644)
    return buffer.getvalue()


def _add_file(archive: tarfile.TarFile, name: str, data: bytes, *, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))
