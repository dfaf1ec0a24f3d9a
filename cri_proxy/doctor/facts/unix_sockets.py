"""List the kernel's Unix stream sockets with their peers, by sock_diag: /proc/net/unix does not say who is connected.

Sources: sock_diag(7), section UNIX sockets, and include/uapi/linux/unix_diag.h. An accepted socket carries the name and
the file of the one that listens, so a client's peer says which socket file it was reached through.

Kernels without the module unix_diag: /proc/net/unix has the names of sockets, accepted ones with that of the one that
listens, and a server's own socket knows its client's process (SO_PEERCRED, unix(7); pidfd_getfd(2) borrows it).
"""

import ctypes
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from cri_proxy.doctor.facts.model import Inode, UnixSocket

_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST, _NLM_F_DUMP = 0x01, 0x300
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_UDIAG_SHOW: Final = 0x01 | 0x02 | 0x04 | 0x08  # name, file, peer, pending connections
_LISTEN: Final = 10  # TCP_LISTEN
_STATES: Final = (1 << 1) | (1 << _LISTEN)  # established and listening
_HEADER = struct.Struct("=LHHLL")  # struct nlmsghdr
_REQUEST = struct.Struct("=BBHLLLLL")  # struct unix_diag_req
_MESSAGE = struct.Struct("=BBBBLLL")  # struct unix_diag_msg
_ATTRIBUTE = struct.Struct("=HH")  # struct rtattr
_BUFFER_BYTES: Final = 1 << 16
_ACCEPTS: Final = 0x10000  # __SO_ACCEPTCON, among the flags of /proc/net/unix
_CONNECTED: Final = 3  # SS_CONNECTED
_SYS_PIDFD_GETFD: Final = 438  # on every architecture
_UCRED = struct.Struct("=iII")  # struct ucred: pid, uid, gid
_MINOR_BITS: Final = 20  # of the kernel's own dev_t


def list_unix_sockets() -> tuple[UnixSocket, ...]:
    """Return the Unix stream sockets of this network namespace. Raises OSError where the kernel does not tell."""
    request = _REQUEST.pack(socket.AF_UNIX, 0, 0, _STATES, 0, _UDIAG_SHOW, 0, 0)
    header = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST | _NLM_F_DUMP, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as channel:
        channel.settimeout(5)
        channel.sendto(header + request, (0, 0))
        return tuple(_replies(channel))


def _replies(channel: socket.socket) -> Iterator[UnixSocket]:
    """Yield the sockets of a dump until its end. Raises OSError."""
    while True:
        for kind, body in _records(channel.recv(_BUFFER_BYTES), _HEADER):
            if kind == _NLMSG_DONE:
                return
            if kind == _NLMSG_ERROR:
                number = -struct.unpack_from("=i", body)[0]
                raise OSError(number, os.strerror(number))
            if kind == _SOCK_DIAG_BY_FAMILY and (found := parse_socket(body)):
                yield found


def _records(data: bytes, header: struct.Struct) -> Iterator[tuple[int, bytes]]:
    """Yield kind and content of each record, whose header begins with the length of both and the kind."""
    at = 0
    while at + header.size <= len(data):
        length, kind, *_ = header.unpack_from(data, at)
        yield kind, data[at + header.size : at + length]
        # Records are aligned to four bytes (netlink(7)); one that says it has no length must not stop the walk here.
        at += max(length + 3 & ~3, header.size)


def parse_socket(body: bytes) -> UnixSocket | None:
    """Return the socket of a unix_diag_msg with its attributes; None for one that is not a stream."""
    _, kind, state, _, inode, *_ = _MESSAGE.unpack_from(body)
    if kind != socket.SOCK_STREAM:
        return None
    peer, path, file, waiting = 0, "", None, ()
    for attribute, value in _records(body[_MESSAGE.size :], _ATTRIBUTE):
        match attribute:
            case 0:  # UNIX_DIAG_NAME
                path = os.fsdecode(value.rstrip(b"\0")).replace("\0", "@")
            case 1:  # UNIX_DIAG_VFS
                number, device = struct.unpack_from("=LL", value)
                file = _device(device), number
            case 2:  # UNIX_DIAG_PEER
                (peer,) = struct.unpack_from("=L", value)
            case 3:  # UNIX_DIAG_ICONS
                waiting = struct.unpack(f"={len(value) // 4}L", value)
    return UnixSocket(inode, peer, path, file, state == _LISTEN, waiting)


def _device(kernel: int) -> int:
    """Return a kernel's dev_t as stat(2) has it."""
    return os.makedev(kernel >> _MINOR_BITS, kernel & ((1 << _MINOR_BITS) - 1))


def file_inode(path: Path) -> Inode | None:
    """Return device and number of a file; None where there is none. The number as sock_diag has it, of 32 bits."""
    with suppress(OSError):
        status = path.stat()
        return status.st_dev, status.st_ino & 0xFFFFFFFF
    return None


def parse_socket_table(text: str) -> Iterator[UnixSocket]:
    """Yield the listening and connected stream sockets of /proc/net/unix that have the name of a file; no peers."""
    for line in text.splitlines()[1:]:
        match line.split(maxsplit=7):
            case [_, _, _, flags, "0001", state, inode, path] if path.startswith("/"):
                listens = bool(int(flags, 16) & _ACCEPTS)
                if listens or int(state, 16) == _CONNECTED:
                    yield UnixSocket(int(inode), 0, path, file_inode(Path(path)), listens)


def client_pids(pid: int, fds: Mapping[int, int]) -> dict[int, int]:
    """Return the process at the other end of each of these sockets of ``pid``: fd by inode, pid by inode.

    Raises OSError where the kernel does not lend another process's sockets.
    """
    found = {}
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    try:
        for inode, fd in fds.items():
            borrowed = libc.syscall(_SYS_PIDFD_GETFD, process, fd, 0)
            if borrowed < 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
            with socket.socket(fileno=borrowed) as server:
                found[inode], *_ = _UCRED.unpack(server.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    finally:
        os.close(process)
    return found
