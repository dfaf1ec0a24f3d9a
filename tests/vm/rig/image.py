"""The guest's root disk and kernel, built once out of Debian packages through this machine's own apt sources.

The packages are resolved against an empty dpkg status, so that every dependency comes along, and unpacked; their
scripts are not run, and the few things those would have made are made here. No debootstrap, no loop mount, no
initramfs (the cloud kernel has nvme and ext4 built in). Needs root, apt, dpkg-deb, tar and mkfs.ext4.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.vm.rig.errors import ImageError

PACKAGES = (
    "base-files base-passwd usr-is-merged bash dash coreutils grep sed findutils tar gzip busybox-static python3 "
    "containerd runc iproute2 procps kmod util-linux libstdc++6 mount systemd"
)
KERNEL = "linux-image-cloud-amd64"
# module folders kept in the image, below lib/modules/VERSION/kernel
MODULES = "drivers/block drivers/virtio drivers/char fs/overlayfs lib crypto arch/x86/crypto mm block"
UNWANTED = tuple(f"--exclude=./usr/share/{name}/*" for name in ("doc", "man", "locale", "info"))
APT_OPTIONS = ("-y", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3", "-o", "Debug::NoLocking=1")
DISK_BYTES = 3 << 30  # apparent; the file is sparse
GUEST = Path(__file__).with_name("guest")
INIT, UNIT = GUEST / "init.sh", GUEST / "rig.service"


def cache_directory() -> Path:
    """$VM_CACHE, else the user's cache directory."""
    if given := os.environ.get("VM_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cri-proxy-vm"


def ensure_image(packages: Sequence[str] = tuple(PACKAGES.split())) -> Path:
    """The directory that holds ``vmlinuz``, ``root.img`` and ``info.json``; built on first use, one build at a time."""
    destination = cache_directory() / _key(packages)
    destination.parent.mkdir(parents=True, exist_ok=True)
    with (destination.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (destination / "info.json").exists():
            _build(destination, packages)
    return destination


def guest_python(image: Path) -> tuple[int, int]:
    major, minor = json.loads((image / "info.json").read_text())["python"].split(".")
    return int(major), int(minor)


def _key(packages: Sequence[str]) -> str:
    """A change of this module, the packages or the distribution builds anew."""
    parts = [Path(__file__).read_bytes(), INIT.read_bytes(), UNIT.read_bytes(), Path("/etc/os-release").read_bytes()]
    parts.append(repr((sorted(packages), KERNEL)).encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def _build(destination: Path, packages: Sequence[str]) -> None:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".build-") as name:
        work = Path(name)
        _say(f"downloading {len(packages)} packages with dependencies, and {KERNEL}")
        packages_files, kernel_file = _download(work, packages)
        _say(f"unpacking {len(packages_files)} packages")
        root = work / "root"
        for directory in ("bin", "sbin", "lib", "lib64"):
            (root / "usr" / directory).mkdir(parents=True)
            (root / directory).symlink_to(f"usr/{directory}")
        for file in packages_files:
            _unpack(file, root)
        _unpack(kernel_file, work / "kernel")
        modules = _install_modules(work / "kernel", root)
        _finish_root(root, modules)
        output = work / "output"
        output.mkdir()
        shutil.copy(next((work / "kernel/boot").glob("vmlinuz-*")), output / "vmlinuz")
        _make_disk(root, output / "root.img")
        python = next((root / "usr/bin").glob("python3.[0-9]*")).name.removeprefix("python")
        info = {"kernel": modules, "python": python, "packages": [file.name for file in packages_files]}
        (output / "info.json").write_text(json.dumps(info, indent=1) + "\n")
        output.rename(destination)
    _say(f"done in {time.monotonic() - started:.0f} s: {destination}")


def _download(work: Path, packages: Sequence[str]) -> tuple[list[Path], Path]:
    """The packages with all that they need, and the kernel's."""
    (work / "archives/partial").mkdir(parents=True)
    (work / "status").touch()
    try:
        return _fetch(work, packages)
    except ImageError:
        # lists missing or stale, or a download that failed: refresh them, and once more
        _run(["apt-get", *APT_OPTIONS, "update"])
        return _fetch(work, packages)


def _fetch(work: Path, packages: Sequence[str]) -> tuple[list[Path], Path]:
    """What an earlier try has fetched is not fetched again."""
    empty = ["-o", f"Dir::State::status={work}/status", "-o", f"Dir::Cache::archives={work}/archives"]
    install = ["apt-get", *APT_OPTIONS, *empty, "-o", "APT::Install-Recommends=false", "--download-only", "install"]
    _run([*install, *packages])
    depends = _run(["apt-cache", "depends", KERNEL])
    kernel = next(line.split()[-1] for line in depends.splitlines() if "Depends:" in line)
    _run(["apt-get", *APT_OPTIONS, "download", kernel], directory=work)
    return sorted((work / "archives").glob("*.deb")), next(work.glob("linux-image-*.deb"))


def _unpack(package: Path, root: Path) -> None:
    root.mkdir(exist_ok=True)
    pipeline = 'dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2" "${@:3}"'
    _run(["bash", "-c", f"set -o pipefail; {pipeline}", "unpack", str(package), str(root), *UNWANTED])


def _install_modules(kernel: Path, root: Path) -> str:
    """Copy the wanted modules; gives the kernel's version."""
    source = next((kernel / "lib/modules").iterdir())
    target = root / "usr/lib/modules" / source.name
    for folder in MODULES.split():
        if (source / "kernel" / folder).exists():
            shutil.copytree(source / "kernel" / folder, target / "kernel" / folder)
    for file in source.glob("modules.*"):
        shutil.copy(file, target)
    return source.name


def _finish_root(root: Path, kernel: str) -> None:
    """What the packages' scripts would have made, and our process 1."""
    for name in ("passwd", "group"):
        shutil.copy(root / f"usr/share/base-passwd/{name}.master", root / "etc" / name)
    (root / "etc/hostname").write_text("vm\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost vm\n")
    (root / "etc/resolv.conf").touch()  # containerd copies it into every sandbox of the host network
    for directory in ("rig/job", "out", "root", "proc", "sys", "dev", "run", "tmp"):
        (root / directory).mkdir(parents=True, exist_ok=True)
    if not (root / "usr/bin/sh").exists():
        (root / "usr/bin/sh").symlink_to("dash")
    shutil.copy(INIT, root / "rig/init")
    (root / "rig/init").chmod(0o755)
    shutil.copy(UNIT, root / "etc/systemd/system")
    _run(["ldconfig", "-r", str(root)])
    _run(["chroot", str(root), "depmod", kernel])
    # a few files of the library are meant not to compile: the exit status says nothing
    compile_all = ["chroot", str(root), "python3", "-m", "compileall", "-q", "-x", "lib2to3|test", "/usr/lib/python3"]
    library = next((root / "usr/lib").glob("python3.*"))
    subprocess.run([*compile_all, f"/usr/lib/{library.name}"], check=False, capture_output=True)


def _make_disk(root: Path, disk: Path) -> None:
    with disk.open("wb") as file:
        file.truncate(DISK_BYTES)
    options = ["-O", "^has_journal", "-m", "0", "-E", "lazy_itable_init=1,nodiscard"]
    _run(["mkfs.ext4", "-q", "-F", *options, "-d", str(root), str(disk)])


def _run(argv: Sequence[str], *, directory: Path | None = None) -> str:
    done = subprocess.run(
        list(argv), cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ImageError(" ".join(argv[:4]), (done.stdout + done.stderr)[-3000:])
    return done.stdout


def _say(text: str) -> None:
    print(f"[guest image] {text}", file=sys.stderr, flush=True)
