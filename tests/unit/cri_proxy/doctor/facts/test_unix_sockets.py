"""The kernel's sockets: real ones of this process."""

import os
import socket
import struct
from pathlib import Path

import pytest

from cri_proxy.doctor.facts.unix_sockets import (
    client_pids,
    file_inode,
    list_unix_sockets,
    parse_socket,
    parse_socket_table,
)


def inode(end: socket.socket) -> int:
    return os.fstat(end.fileno()).st_ino


def test_a_client_is_found_with_the_file_that_it_was_reached_through_after_a_rename(tmp_path: Path) -> None:
    """The proxy binds to another name and renames; the name in the kernel stays the old one."""
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "new"))
        server.listen()
        (tmp_path / "new").rename(tmp_path / "s")
        client.connect(str(tmp_path / "s"))
        accepted, _ = server.accept()
        with accepted:
            found = {each.inode: each for each in list_unix_sockets()}
            assert found[inode(client)].peer == inode(accepted)
            assert found[inode(accepted)].file == file_inode(tmp_path / "s")
            assert (found[inode(accepted)].path, found[inode(accepted)].is_listening) == (str(tmp_path / "new"), False)
            assert found[inode(server)].is_listening


def test_a_client_that_nobody_has_accepted_yet_waits_at_the_one_that_listens(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        client.connect(str(tmp_path / "s"))
        found = {each.inode: each for each in list_unix_sockets()}
        assert (found[inode(client)].peer, found[inode(server)].waiting) == (0, (inode(client),))


def test_other_kinds_of_sockets_are_left_out() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind("")
        assert inode(datagrams) not in {each.inode for each in list_unix_sockets()}


def test_an_abstract_name_shows_its_first_byte() -> None:
    name = struct.pack("=HH", 6, 0) + b"\0x" + b"\0\0"
    found = parse_socket(struct.pack("=BBBBLLL", 1, socket.SOCK_STREAM, 1, 0, 9, 0, 0) + name)
    assert found
    assert (found.inode, found.path, found.file) == (9, "@x", None)


def test_a_file_that_is_missing_has_no_inode(tmp_path: Path) -> None:
    assert file_inode(tmp_path / "none") is None


def test_without_sock_diag_the_table_has_the_names_of_servers_and_their_accepted_sockets(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        client.connect(str(tmp_path / "s"))
        accepted, _ = server.accept()
        with accepted:
            found = {each.inode: each for each in parse_socket_table(Path("/proc/net/unix").read_text())}
            assert (found[inode(server)].is_listening, found[inode(accepted)].is_listening) == (True, False)
            assert found[inode(accepted)].path == str(tmp_path / "s")
            assert inode(client) not in found


def test_a_borrowed_socket_knows_the_process_of_its_client(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        client.connect(str(tmp_path / "s"))
        accepted, _ = server.accept()
        with accepted:
            assert client_pids(os.getpid(), {inode(accepted): accepted.fileno()}) == {inode(accepted): os.getpid()}


def test_a_file_that_cannot_be_borrowed_is_an_error() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        client_pids(os.getpid(), {1: 1_000_000})
