import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config
from cri_proxy.doctor.facts.proxy import (
    ask_daemon,
    is_enabled,
    node_cpus,
    read_access,
    refusal_of,
    silence_of,
)
from cri_proxy.in_force.report import FilesReport, FileState, JudgedFile
from cri_proxy.node.status.inventory import InventoryFileView
from cri_proxy.node.status.model import CdiView, CostFilesView
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.machines import small_machine
from tests.fakes.serving import served
from tests.fakes.sysfs_tree import write_tree
from tests.fakes.views import FixedDaemon

ADMIN = Path("/a.sock")


def test_a_running_daemon_says_what_it_uses(tmp_path: Path) -> None:
    daemon = FixedDaemon(parse_config("{reservedResources: {cpu: 750m}, stateDir: /s}"))
    daemon.is_ready = False
    with served(tmp_path / "a.sock", daemon):
        found = ask_daemon(tmp_path, ADMIN, Path("/none.yaml"))
    assert (found.proxy.is_running, found.proxy.node_name) == (True, "worker-1")
    assert found.proxy.problems == ("the runtime is away",)
    assert (found.config.state_dir, str(found.config.reserved.cpu)) == ("/s", "750m")


def test_a_running_daemon_says_what_is_wrong_with_its_cost_files(tmp_path: Path) -> None:
    daemon = FixedDaemon(parse_config("{}"))
    files = (JudgedFile("a.yaml", FileState.KEPT, "not YAML", 3), JudgedFile("b.yaml", FileState.IN_FORCE))
    daemon.costs = CostFilesView("/d", FilesReport(0.0, files, "has mode 0777"))
    with served(tmp_path / "a.sock", daemon):
        found = ask_daemon(tmp_path, ADMIN, Path("/none.yaml"))
    assert found.proxy.cost_problems == ("/d: has mode 0777", "/d/a.yaml:3: not YAML")


def test_a_running_daemon_says_which_sources_of_devices_disagree(tmp_path: Path) -> None:
    daemon = FixedDaemon(parse_config("{}"))
    daemon.inventory = InventoryFileView("/d.yaml", True, FilesReport(0.0), ("gpu 0: here; there",), shows_gpus=True)
    with served(tmp_path / "a.sock", daemon):
        found = ask_daemon(tmp_path, ADMIN, Path("/none.yaml"))
    assert (found.proxy.disagreements, found.proxy.shows_gpus) == (("gpu 0: here; there",), True)


def test_a_running_daemon_says_how_containers_get_cdi_devices(tmp_path: Path) -> None:
    daemon = FixedDaemon(parse_config("{}"))
    with served(tmp_path / "a.sock", daemon):
        unknown = ask_daemon(tmp_path, ADMIN, Path("/none.yaml"))
        daemon.cdi = CdiView("resolve", "auto", "resolved by cri-proxy (why)", ("a; b",))
        found = ask_daemon(tmp_path, ADMIN, Path("/none.yaml"))
    assert (unknown.proxy.cdi, unknown.proxy.cdi_problems) == ("", ())
    assert (found.proxy.cdi, found.proxy.cdi_problems) == ("resolved by cri-proxy (why)", ("a; b",))


def test_without_one_its_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("reservedResources: {cpu: 750m}\n")
    found = ask_daemon(tmp_path, ADMIN, Path("/c.yaml"))
    assert (found.proxy.is_running, found.config_file, str(found.config.reserved.cpu)) == (False, "/c.yaml", "750m")
    assert "is the daemon running" in found.proxy.unreachable
    assert ask_daemon(tmp_path, ADMIN, Path("/none.yaml")).config == Config()


def test_a_file_that_is_not_valid_is_why_none_runs(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("reservedResources: {cpu: never}\n")
    assert "never" in ask_daemon(tmp_path, ADMIN, Path("/c.yaml")).proxy.unusable


@contextmanager
def listening(path: Path, answer: bytes) -> Iterator[None]:
    """A socket that answers one call with this; with nothing it closes."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def speak() -> None:
            client, _ = server.accept()
            with client:
                client.recv(64)
                client.sendall(answer)

        speaking = threading.Thread(target=speak)
        speaking.start()
        yield
        speaking.join()


def test_a_socket_is_silent_or_answers(tmp_path: Path) -> None:
    assert silence_of(tmp_path / "none") == "No such file or directory"
    with listening(tmp_path / "a", b"!"):
        assert silence_of(tmp_path / "a") == ""
    assert silence_of(tmp_path / "a") == "Connection refused"


def test_a_connection_that_is_closed_says_that_the_runtime_does_not_answer(tmp_path: Path) -> None:
    with listening(tmp_path / "a", b""):
        assert "the runtime behind cri-proxy does not answer" in silence_of(tmp_path / "a")


def test_a_runtimes_socket_takes_a_connection_or_says_why_not(tmp_path: Path) -> None:
    assert refusal_of(tmp_path / "none") == "No such file or directory"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "a"))
        server.listen()
        assert refusal_of(tmp_path / "a") == ""


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([], None),
        (["lib/systemd/system/cri-proxy.service"], False),
        (["etc/systemd/system/cri-proxy.service"], False),
        (
            ["etc/systemd/system/cri-proxy.service", "etc/systemd/system/multi-user.target.wants/cri-proxy.service"],
            True,
        ),
        (["lib/systemd/system/cri-proxy.service", "etc/systemd/system/sockets.target.wants/cri-proxy.socket"], True),
    ],
)
def test_a_boot_starts_what_a_target_wants(tmp_path: Path, files: list[str], expected: bool | None) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("[Service]\n")
    assert is_enabled(tmp_path, ()) is expected


def test_a_boot_starts_what_the_kubelets_unit_wants(tmp_path: Path) -> None:
    unit = tmp_path / "lib/systemd/system/cri-proxy.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\n")
    (tmp_path / "drop-in").write_text("[Unit]\nWants=network.target cri-proxy.service\n")
    assert is_enabled(tmp_path, ("/drop-in",)) is True
    assert is_enabled(tmp_path, ("/none",)) is False


def at(root: Path, name: str, mode: int) -> str:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    path.chmod(mode)
    return f"/{name}"


@pytest.mark.parametrize(
    ("mode", "runtime_mode", "admin_mode", "is_open"),
    [
        (0o600, 0o600, 0o600, False),
        (0o660, 0o660, 0o600, False),
        (0o660, 0o600, 0o600, True),
        (0o666, 0o660, 0o600, True),
        (0o600, 0o600, 0o660, True),
        (0o644, 0o600, 0o600, False),
    ],
)
def test_a_socket_is_no_more_open_than_the_runtimes(
    tmp_path: Path, mode: int, runtime_mode: int, admin_mode: int, is_open: bool
) -> None:
    at(tmp_path, "run/cri-proxy/cri-proxy.sock", mode)
    at(tmp_path, "run/containerd/containerd.sock", runtime_mode)
    at(tmp_path, "run/cri-proxy/admin.sock", admin_mode)
    assert any(each.problem for each in read_access(tmp_path, Config(), "")) is is_open


def test_state_and_configuration_are_looked_at(tmp_path: Path) -> None:
    at(tmp_path, "s/state.db", 0o666)
    at(tmp_path, "etc/cri-proxy.yaml", 0o644)
    found = {
        each.path: each.problem
        for each in read_access(tmp_path, replace(Config(), state_dir="/s"), "/etc/cri-proxy.yaml")
    }
    assert set(found) == {"/s", "/s/state.db", "/etc/cri-proxy.yaml", "/etc"}
    assert "chmod go-w /s/state.db" in found["/s/state.db"]
    assert found["/etc/cri-proxy.yaml"] == ""


def test_the_cpus_are_divided_as_the_configuration_says(tmp_path: Path) -> None:
    write_tree(tmp_path, small_machine(isolated="6-7"))
    found, hardware = node_cpus(tmp_path, parse_config("reservedResources: {cpu: 'cpuset:0'}"))
    assert (hardware.nodes, hardware.packages) == (NodeSet.parse("0-1"), 2)
    assert hardware.memory_bytes > 1 << 30
    assert (found.reserved, found.isolated, found.online) == (
        CpuSet.parse("0"),
        CpuSet.parse("6-7"),
        CpuSet.parse("0-7"),
    )


def test_it_is_known_how_many_cpus_are_kept_beside_accelerators(tmp_path: Path) -> None:
    gpu = {"address": "0000:18:00.0", "class": 0x030200, "node": 1}
    write_tree(tmp_path, small_machine(cores=4, threads=1, pci=[gpu]))
    options = "reservedResources: {cpu: 'cpuset:0'}\ntopologyAware: {DeviceCPUs: {keep: 3}}"
    assert node_cpus(tmp_path, parse_config(options))[0].kept == CpuSet.parse("5-7")
    assert not node_cpus(tmp_path, parse_config("reservedResources: {cpu: 'cpuset:0'}"))[0].kept
