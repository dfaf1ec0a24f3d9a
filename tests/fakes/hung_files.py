"""Files that hang for real: a FUSE mount whose server takes requests and never answers, and a frozen ext4.

Both put who asks into an uninterruptible sleep, which no signal ends (fs/fuse/dev.c: ``request_wait_answer``;
kernel/locking/percpu-rwsem.c). What hangs is freed at the end of the block, and by the kernel if this process dies.
"""

import ctypes
import os
import select
import shutil
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_INIT, _INTERRUPT = 26, 36  # FUSE_INIT, FUSE_INTERRUPT (include/uapi/linux/fuse.h)
_HEADER = struct.Struct("<IIQQIIIHH")  # fuse_in_header
_DETACH = 2  # MNT_DETACH
_libc = ctypes.CDLL(None, use_errno=True)


class SilentServer:
    """A FUSE file system at this directory. ``asked`` counts the requests that it took and did not answer."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.asked = 0
        self._fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        options = f"fd={self._fuse},rootmode=40000,user_id=0,group_id=0,allow_other"
        if _libc.mount(b"silent", bytes(directory), b"fuse", 0, options.encode()) != 0:
            os.close(self._fuse)
            raise OSError(ctypes.get_errno(), "cannot mount FUSE")
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        while not self._is_over.is_set():
            if not select.select([self._fuse], [], [], 0.1)[0]:
                continue
            with suppress(BlockingIOError):
                request = os.read(self._fuse, 1 << 20)
                _, opcode, unique, *_ = _HEADER.unpack_from(request)
                if opcode == _INIT:
                    body = struct.pack("<IIIIHHIIHH28x", 7, 31, 4096, 0, 12, 9, 4096, 1, 1, 0)
                    os.write(self._fuse, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)
                elif opcode != _INTERRUPT:  # a signal came to who waits for an answer
                    self.asked += 1

    def close(self) -> None:
        """Unmount it; who waits gets ENOTCONN."""
        self._is_over.set()
        self._thread.join()
        _libc.umount2(bytes(self.directory), _DETACH)
        os.close(self._fuse)  # aborts the connection


@contextmanager
def hung_mount(directory: Path) -> Iterator[SilentServer]:
    """Mount a file system that never answers here."""
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("a mount that hangs needs root and /dev/fuse")
    directory.mkdir(parents=True, exist_ok=True)
    try:
        server = SilentServer(directory)
    except OSError as error:
        pytest.skip(f"FUSE cannot be mounted here: {error}")
    try:
        yield server
    finally:
        server.close()


class Disk:
    """A small ext4 that can be frozen (fsfreeze(8)): reads go on, writes wait."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._guard: subprocess.Popen[bytes] | None = None

    def freeze(self) -> None:
        """Hold every write until ``thaw``, or until this process ends."""
        subprocess.run(["fsfreeze", "--freeze", str(self.directory)], check=True)
        thaw = f"cat > /dev/null; fsfreeze --unfreeze {self.directory}"
        self._guard = subprocess.Popen(["sh", "-c", thaw], stdin=subprocess.PIPE, start_new_session=True)

    def thaw(self) -> None:
        """Let writes go on."""
        if self._guard is not None:
            guard, self._guard = self._guard, None
            guard.communicate()


@contextmanager
def freezable_disk(directory: Path) -> Iterator[Disk]:
    """Make and mount a disk of its own here."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("mkfs.ext4", "fsfreeze", "mount"))):
        pytest.skip("a disk that freezes needs root, mkfs.ext4 and fsfreeze")
    image = directory.with_name(f"{directory.name}.img")
    with image.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    directory.mkdir(parents=True, exist_ok=True)
    if subprocess.run(["mount", "-o", "loop", str(image), str(directory)], check=False).returncode != 0:
        pytest.skip("no loop device here")
    disk = Disk(directory)
    try:
        yield disk
    finally:
        disk.thaw()
        subprocess.run(["umount", "--lazy", str(directory)], check=True)
        image.unlink()
