"""The Debian package on a machine where systemd runs: installed, hardened, watched, restarted, removed, purged.

The runtime is the embedded one: what is asked here is what systemd and dpkg do with the service, on a real systemd with
the unit's whole sandbox in force.
"""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.booted import Booted, booted, missing
from tests.fakes.waiting import holds
from tests.testbed.wait import until

# The first test waits for a package that is built, a machine that boots and an installation.
pytestmark = pytest.mark.timeout(1100)

ROOT = Path(__file__).parent.parent.parent
UNIT = "cri-proxy.service"
PLUGIN = "cri-proxy-device-plugin.service"
EXPORTER = "cri-proxy-exporter.service"
LINKS = "gpu-links.service"
SOCKET = "/run/cri-proxy/cri-proxy.sock"
CONFIGURATION = "/etc/cri-proxy/cri-proxy.yaml"
# What systemd-analyze says of what is left open, 0 to 10; each open point has its comment in the unit.
EXPOSURE = 2.5
READY_SECONDS, TOLD_SECONDS = 120.0, 60.0
# Says hello as an HTTP/2 client and prints how many seconds the first byte of an answer took.
HELLO = f"""
import socket, time
start = time.monotonic()
# A daemon that ends hangs up on those that it has just accepted; gRPC then tries again, as here, and is never refused.
for attempt in range(3):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(60)
    client.connect("{SOCKET}")
    try:
        client.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        if client.recv(1):
            print("answered", round(time.monotonic() - start, 2))
            break
    except (BrokenPipeError, ConnectionResetError):
        pass
else:
    print("hung up", round(time.monotonic() - start, 2))
"""


@pytest.fixture(scope="module")
def package(deb: Path) -> Path:
    if reason := missing():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    return deb


def test_the_package_lists_what_it_contains_as_it_was_pinned(package: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "--extract", package, tmp_path], check=True)
    inside = (tmp_path / "usr/share/doc/cri-proxy/sbom.cdx.json").read_text()
    (beside,) = package.parent.glob("*.sbom.cdx.json")
    assert beside.read_text() == inside
    listed = {f"{c['name'].lower().replace('_', '-')}=={c['version']}" for c in json.loads(inside)["components"]}
    pins = re.findall(r"^\S+==\S+", (ROOT / "packaging/requirements/run.txt").read_text(), re.MULTILINE)
    assert listed == {pin for pin in pins if not pin.startswith("setuptools==")}


@pytest.fixture(scope="module")
def machine(package: Path) -> Iterator[Booted]:
    """A machine with the package installed, on the embedded runtime."""
    with booted() as machine:
        machine.receive(package, "/root/cri-proxy.deb")
        machine.put("/etc/default/cri-proxy", 'CRI_PROXY_ARGS="--runtime-endpoint embedded"\n')
        machine.run("dpkg --force-confold --install /root/cri-proxy.deb")
        yield machine


def log_of(machine: Booted) -> list[dict[str, object]]:
    lines = machine.tell(f"journalctl --unit={UNIT} --output=cat --no-pager").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


async def until_ready(machine: Booted) -> None:
    """Wait until the daemon answers its command, and says that it decides."""

    async def is_ready() -> bool:
        said = machine.run("cri-proxy status -o json", check=False)
        return said.returncode == 0 and bool(json.loads(said.stdout)["is_ready"])

    await until("the daemon is ready", is_ready, seconds=READY_SECONDS)


async def test_an_installation_enables_and_starts_the_service(machine: Booted) -> None:
    await until_ready(machine)
    assert machine.systemctl("is-enabled", UNIT) == "enabled"
    assert machine.value(UNIT, "ActiveState") == "active"
    await holds(
        "systemd was told what it does",
        lambda: machine.value(UNIT, "StatusText") == "placing containers",
        seconds=TOLD_SECONDS,
    )


async def test_the_whole_sandbox_lets_it_do_its_work(machine: Booted) -> None:
    await until_ready(machine)
    assert json.loads(machine.tell("cri-proxy status -o json"))["is_ready"] is True
    assert [line for line in log_of(machine) if line["level"] == "error"] == []


async def test_the_journal_gets_one_json_object_per_line(machine: Booted) -> None:
    await until_ready(machine)

    async def has_said_all() -> bool:
        lines = machine.tell(f"journalctl _SYSTEMD_UNIT={UNIT} --output=cat --no-pager").splitlines()
        return {"ready", "recovered"} <= {json.loads(line)["event"] for line in lines}

    assert await until("the journal has it all", has_said_all, seconds=TOLD_SECONDS)


async def test_it_keeps_one_of_roots_powers_and_may_write_its_own_directories_only(machine: Booted) -> None:
    await until_ready(machine)
    pid = machine.value(UNIT, "MainPID")
    assert re.search(r"^CapBnd:\s+0+1$", machine.tell(f"cat /proc/{pid}/status"), re.MULTILINE)  # CAP_CHOWN
    inside = f"nsenter --target={pid} --mount sh -c 'for d in %s; do touch $d/probe && rm $d/probe; done' 2>&1"
    own = "/run/cri-proxy /var/lib/cri-proxy"
    foreign = "/usr /etc /var/lib /sys/fs/cgroup"
    assert machine.tell(inside % own) == ""
    assert machine.tell(inside % foreign).count("Read-only file system") == len(foreign.split())


async def test_it_sees_the_cgroups_of_other_users_processes(machine: Booted) -> None:
    await until_ready(machine)
    pid = machine.value(UNIT, "MainPID")
    inside = f"nsenter --target={pid} --mount setpriv --bounding-set=-all --inh-caps=-all"
    assert "/init.scope" in machine.run(f"{inside} cat /proc/1/cgroup").stdout


async def test_a_daemon_that_stands_still_is_started_anew(machine: Booted) -> None:
    # Of the ten seconds the machine may take a few: a ping waits an eighth of them for its answer.
    machine.put(f"/run/systemd/system/{UNIT}.d/short.conf", "[Service]\nWatchdogSec=10s\nTimeoutAbortSec=1s\n")
    machine.run(f"systemctl daemon-reload && systemctl restart {UNIT}")
    await until_ready(machine)
    await asyncio.to_thread(machine.run, "sleep 21")  # more than twice the limit: pings keep it alive
    before = machine.value(UNIT, "MainPID")
    assert machine.value(UNIT, "NRestarts") == "0"
    assert [line for line in log_of(machine) if line["level"] in ("error", "warning")] == []
    machine.run(f"kill -STOP {before}")
    await holds("it is started anew", lambda: machine.value(UNIT, "MainPID") not in ("0", before), seconds=TOLD_SECONDS)
    await until_ready(machine)
    machine.run(f"rm -r /run/systemd/system/{UNIT}.d; systemctl daemon-reload")


async def test_a_daemon_that_is_killed_again_and_again_comes_back_each_time(machine: Booted) -> None:
    for _ in range(7):  # systemd's own limit is 5 starts in 10 seconds
        await until_ready(machine)
        machine.run(f"systemctl kill --signal=KILL {UNIT}")
    await until_ready(machine)


async def test_a_reload_keeps_the_process(machine: Booted) -> None:
    await until_ready(machine)
    before = machine.value(UNIT, "MainPID")
    machine.systemctl("reload", UNIT)
    await until_ready(machine)
    assert machine.value(UNIT, "MainPID") == before


async def test_the_journal_knows_what_is_worth_a_look(machine: Booted) -> None:
    await until_ready(machine)
    machine.put(CONFIGURATION, "reservedResources: {cpu: never}\n")

    async def is_told() -> bool:
        grave = machine.run(f"journalctl --unit={UNIT} --priority=warning --output=cat --no-pager", check=False).stdout
        found = {json.loads(line)["event"] for line in grave.splitlines() if line.startswith("{")}
        return "config_rejected" in found and "ready" not in found

    await until("the journal has the rejection as a warning, and not all the rest", is_told, seconds=TOLD_SECONDS)
    machine.put(CONFIGURATION, (ROOT / "packaging" / "cri-proxy.yaml").read_text())


async def test_an_upgrade_restarts_it_and_keeps_the_state(machine: Booted) -> None:
    await until_ready(machine)
    before, state = machine.value(UNIT, "MainPID"), machine.tell("stat --format=%i /var/lib/cri-proxy/state.db")
    machine.run("dpkg --force-confold --install /root/cri-proxy.deb")
    await until_ready(machine)
    assert machine.value(UNIT, "MainPID") != before
    assert machine.tell("stat --format=%i /var/lib/cri-proxy/state.db") == state


async def test_with_the_socket_unit_a_client_waits_out_a_restart(machine: Booted) -> None:
    machine.put("/root/hello.py", HELLO)
    machine.run(f"systemctl stop {UNIT}; systemctl enable --now cri-proxy.socket && systemctl start {UNIT}")
    await until_ready(machine)
    assert machine.tell(f"stat --format=%a {SOCKET}") == "600"  # the embedded runtime's
    inode = machine.tell(f"stat --format=%i {SOCKET}")
    assert machine.tell(f"systemctl restart --no-block {UNIT}; python3 /root/hello.py").startswith("answered")
    machine.run(f"systemctl kill --signal=KILL {UNIT}")
    assert machine.tell("python3 /root/hello.py").startswith("answered")
    assert machine.tell(f"stat --format=%i {SOCKET}") == inode
    machine.run(f"systemctl disable --now cri-proxy.socket; systemctl restart {UNIT}")
    await until_ready(machine)


def test_what_tries_a_checkout_is_not_in_the_package(package: Path) -> None:
    listed = subprocess.run(["dpkg-deb", "--contents", package], check=True, capture_output=True, text=True).stdout
    rooms = ("cri_proxy/cri_client", "tests", "tryout", "testbed")
    assert [room for room in rooms if f"/{room}/" in listed] == ["cri_proxy/cri_client"]


def test_the_package_tells_nothing_of_the_machine_that_built_it(package: Path) -> None:
    names = subprocess.run(["dpkg-deb", "--contents", package], check=True, capture_output=True, text=True).stdout
    assert "/usr/lib/cri-proxy/cri_proxy/cli/main.py" in names
    assert [line for line in names.splitlines() if "root/root" not in line or "direct_url" in line] == []


def test_everybody_can_read_what_is_in_the_package(package: Path) -> None:
    listed = subprocess.run(["dpkg-deb", "--contents", package], check=True, capture_output=True, text=True).stdout
    modes = {line.split()[0] for line in listed.splitlines()}
    assert modes == {"-rw-r--r--", "-rwxr-xr-x", "drwxr-xr-x"}


def test_systemd_finds_nothing_wrong_with_the_units(machine: Booted) -> None:
    assert machine.run(f"systemd-analyze verify {UNIT} {PLUGIN} {EXPORTER} cri-proxy.socket").stdout == ""


def test_the_device_plugin_serves_within_what_its_unit_allows_it(machine: Booted) -> None:
    socket = "/var/lib/kubelet/device-plugins/cri-proxy-gpu.sock"
    machine.run("mkdir -p /var/lib/kubelet/device-plugins /etc/cri-proxy")
    machine.put("/etc/cri-proxy/devices.yaml", "gpu: [{minor: 0}]\n")
    given = 'CRI_PROXY_DEVICE_PLUGIN_ARGS="--inventory /etc/cri-proxy/devices.yaml"'
    machine.run(f"echo '{given}' >>/etc/default/cri-proxy")
    machine.run(f"systemctl start {PLUGIN}")  # which waits until it is ready
    assert machine.tell(f"stat --format=%a {socket}") == "600"
    machine.run(f"systemctl reload {PLUGIN} && systemctl stop {PLUGIN}")
    assert machine.value(PLUGIN, "Result") == "success"
    assert machine.run(f"test -e {socket}", check=False).returncode == 1


def test_the_exporter_asks_daemon_and_api_server_within_what_its_unit_allows_it(machine: Booted) -> None:
    """No API server is there: what is seen is that it has the daemon's answer and gets as far as to connect."""
    user, cluster = "{name: u, user: {token: t}}", '{name: c, cluster: {server: "http://127.0.0.1:1"}}'
    context = "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
    machine.put("/etc/cri-proxy/exporter.conf", f"{context}clusters: [{cluster}]\nusers: [{user}]\n")
    machine.run(f"systemctl start {EXPORTER}")  # which waits until it is ready
    told = f"journalctl --unit={EXPORTER} --output=cat"
    machine.run(f"for i in $(seq 50); do {told} | grep -q not_exported && break; sleep 0.2; done")
    assert "http://127.0.0.1:1: Connect call failed" in machine.tell(told)
    machine.run(f"systemctl stop {EXPORTER}")
    assert machine.value(EXPORTER, "Result") == "success"


@pytest.mark.parametrize("unit", [UNIT, PLUGIN, EXPORTER, LINKS])
def test_little_is_left_open(machine: Booted, unit: str) -> None:
    machine.put(f"/etc/systemd/system/{LINKS}", (ROOT / "packaging/kubernetes" / LINKS).read_text())
    assert machine.run(f"systemctl daemon-reload && systemd-analyze verify {LINKS}").stdout == ""
    found = re.search(r"exposure level for \S+ ([\d.]+)", machine.tell(f"systemd-analyze security --no-pager {unit}"))
    assert found
    assert float(found[1]) <= EXPOSURE


def test_the_links_of_gpus_are_published_within_what_their_unit_allows(machine: Booted) -> None:
    """The matrix is that of the documentation's example; the driver's program is a script that prints it."""
    features = "/etc/kubernetes/node-feature-discovery/features.d"
    machine.put(f"/etc/systemd/system/{LINKS}", (ROOT / "packaging/kubernetes" / LINKS).read_text())
    machine.put("/etc/matrix", (ROOT / "configs/links/server.txt").read_text())
    machine.put("/usr/bin/nvidia-smi", "#!/bin/sh\nexec cat /etc/matrix\n")
    machine.run(f"chmod +x /usr/bin/nvidia-smi && mkdir -p {features} && systemctl daemon-reload")
    machine.run(f"systemctl start {LINKS}")  # which waits until it is done
    assert "gpu-links.cri-proxy.io/0=" in machine.tell(f"cat {features}/gpu-links")
    machine.run(f"systemctl stop {LINKS} && rm /usr/bin/nvidia-smi")


async def test_the_doctor_sees_a_service_that_runs_is_enabled_and_closed_to_others(machine: Booted) -> None:
    await until_ready(machine)
    report = json.loads(machine.run("cri-proxy doctor -o json", check=False).stdout)
    about_us = ("proxy-", "socket-", "open-access", "second-proxy", "no-unit", "config-invalid", "no-cpuset")
    assert [finding for finding in report["findings"] if finding["code"].startswith(about_us)] == []
    assert report["unseen"] == []


def test_a_package_that_the_kubelet_relies_on_is_not_removed(machine: Booted) -> None:
    machine.put("/var/lib/kubelet/config.yaml", f"containerRuntimeEndpoint: unix://{SOCKET}\n")
    refused = machine.run("dpkg --remove cri-proxy", check=False)
    assert refused.returncode != 0
    assert "systemctl stop kubelet" in refused.stdout
    assert "uses-proxy" in refused.stdout
    assert machine.run("cri-proxy --version").stdout.startswith("cri-proxy ")
    machine.run("rm /var/lib/kubelet/config.yaml")


def test_state_that_containers_have_mounted_outlives_a_purge_and_all_else_goes(package: Path) -> None:
    with booted() as machine:
        machine.receive(package, "/root/cri-proxy.deb")
        machine.run("dpkg --install /root/cri-proxy.deb")
        told = "/var/lib/cri-proxy/containers/uid/c"
        mounted = f"mkdir -p /.cri-proxy {told} && mount --bind {told} /.cri-proxy && exec sleep 600"
        machine.run(f"unshare --mount sh -c '{mounted}' >/dev/null 2>&1 & echo $! >/run/holder")
        machine.run("timeout 60 sh -c 'until grep -qs \" /.cri-proxy \" /proc/[0-9]*/mountinfo; do sleep 0.1; done'")
        assert "stays: running containers" in machine.run("dpkg --purge cri-proxy").stdout
        assert machine.tell("ls -A /var/lib/cri-proxy") == "containers"
        left = "ls -d /usr/lib/cri-proxy /usr/bin/cri-proxy /etc/cri-proxy /run/cri-proxy /etc/default/cri-proxy"
        assert machine.tell(f"{left} 2>/dev/null; ls /etc/systemd/system/*/cri-proxy* 2>/dev/null") == ""
        machine.run("dpkg --install /root/cri-proxy.deb; kill $(cat /run/holder)")
        machine.run("timeout 60 sh -c 'while grep -qs \" /.cri-proxy \" /proc/[0-9]*/mountinfo; do sleep 0.1; done'")
        machine.run("dpkg --purge cri-proxy")
        assert machine.run("test -e /var/lib/cri-proxy", check=False).returncode == 1
