"""The device-plugin command, as a process of its own: signals, exit status, what it says of options and files."""

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from cri_proxy.cli.agents.device_plugin import settings_of
from cri_proxy.cli.help.parser import command_parser, load_command
from cri_proxy.cli.main import run_command
from cri_proxy.inventory.numbers import NUMBERS
from cri_proxy.kubelet.device_plugin.settings import PLUGIN_DIRECTORY, PluginSettings
from tests.fakes import settable_clock
from tests.fakes.amd_texts import islands, rocm_smi
from tests.fakes.device_kubelet import DeviceKubelet
from tests.fakes.machines import small_machine
from tests.fakes.sysfs_tree import write_tree
from tests.fakes.waiting import holds
from tests.testbed.daemon import program

SECONDS = 20


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    (tmp_path / "devices.yaml").write_text("gpu: [{minor: 0}]\n")
    return ["device-plugin", "--inventory", f"{tmp_path}/devices.yaml", "--plugin-dir", f"{tmp_path}/plugins"]


def settings(*words: str) -> PluginSettings:
    name = "device-plugin"
    return settings_of(command_parser(name, load_command(name)).parse_args(words))


@contextmanager
def started(words: list[str], environment: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    given = {**os.environ, **(environment or {})}
    child = subprocess.Popen([*program(), *words], stderr=subprocess.PIPE, text=True, env=given)
    assert child.stderr is not None
    try:
        yield child
    finally:
        child.kill()
        child.wait(SECONDS)
        child.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_serves_until_it_is_told_to_end_and_leaves_no_socket(
    words: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    kubelet = DeviceKubelet(tmp_path / "plugins")
    await kubelet.start()
    with started(words) as child:
        await holds("the kubelet knows it", lambda: kubelet.knows("cri-proxy.io/gpu"))
        (tmp_path / "devices.yaml").write_text("gpu: [{minor: 0}, {minor: 1}]\n")
        child.send_signal(signal.SIGHUP)
        await holds("the file is read again", lambda: len(kubelet.plugins["cri-proxy.io/gpu"].devices) == 2)
        child.send_signal(number)
        assert child.wait(SECONDS) == 0
    assert [path.name for path in (tmp_path / "plugins").iterdir()] == ["kubelet.sock"]
    await kubelet.stop()


async def test_it_registers_again_though_the_clock_is_set_back(words: list[str], tmp_path: Path) -> None:
    kubelet = DeviceKubelet(tmp_path / "plugins")
    kubelet.refusal = "not yet"
    await kubelet.start()
    with settable_clock.started(*words) as child:
        await asyncio.to_thread(settable_clock.said, child, "not_registered")
        child.send_signal(settable_clock.SET_BACK)
        kubelet.refusal = ""

        def is_registered() -> bool:
            child.send_signal(settable_clock.SET_FORWARD)
            return kubelet.knows("cri-proxy.io/gpu")

        await holds("the kubelet knows it", is_registered)
    await kubelet.stop()


MI300X = {"class": "0x120000", "vendor": "0x1002", "device": "0x74a1"}


def mi300x_node(root: Path) -> Path:
    """Two MI300X in QPX, one on each NUMA node, and what amd-ctk declares of them: devices by their count."""
    gpus = [
        {"address": f"0000:{bus}5:00.0", "parent": f"0000:{bus}3:00.0", "node": node, **MI300X, "partitions": names}
        for node, bus in enumerate("08")
        for names in [[f"amdgpu_xcp_{8 * node + n}" for n in range(3)]]
    ]
    write_tree(root, small_machine(nodes=1, packages=2, pci=gpus))
    nodes = [["/dev/kfd", f"/dev/dri/card{n + 1}", f"/dev/dri/renderD{128 + n}"] for n in range(8)]
    devices = [
        {"name": str(n), "containerEdits": {"deviceNodes": [{"path": path} for path in paths]}}
        for n, paths in enumerate(nodes)
    ]
    (root / "var/run/cdi").mkdir(parents=True)
    (root / "var/run/cdi/amd.json").write_text(json.dumps({"kind": "amd.com/gpu", "devices": devices}))
    return root


async def test_partitions_of_amds_gpus_are_served_by_the_scan_together_and_with_the_nodes_of_their_gpu(
    tmp_path: Path,
) -> None:
    kubelet, root = DeviceKubelet(tmp_path / "plugins"), mi300x_node(tmp_path / "host")
    await kubelet.start()
    (tmp_path / "health").write_text("0000:85:00.0 ok\n")
    (tmp_path / "links").write_text(rocm_smi(islands(2, 2)))  # of whole GPUs, which partitions are not
    words = ["--resource", "gpu=amd.com/gpu", "--plugin-dir", f"{tmp_path}/plugins", "--sysfs-root", str(root)]
    words += ["--links", f"{tmp_path}/links", "--health", f"{tmp_path}/health"]
    with started(["device-plugin", "--inventory", "scan", *words]) as child:
        await holds("the kubelet knows it", lambda: kubelet.knows("amd.com/gpu"))
        plugin = kubelet.plugins["amd.com/gpu"]
        places = {name: [node.ID for node in device.topology.nodes] for name, device in plugin.devices.items()}
        assert places == {f"gpu-{n}": [n // 4] for n in range(8)}
        taken = [await kubelet.allocate("amd.com/gpu", count) for count in (1, 4, 2)]
        assert [ids for ids, _ in taken] == [("gpu-0",), tuple(f"gpu-{n}" for n in (4, 5, 6, 7)), ("gpu-1", "gpu-2")]
        answer = taken[1][1]
        assert [each.name for each in answer.cdi_devices] == [f"amd.com/gpu={n}" for n in (4, 5, 6, 7)]
        assert dict(answer.envs) == {"CRI_PROXY_ALLOCATED_GPU": "4,5,6,7"}
        (tmp_path / "health").write_text("0000:85:00.0 unhealthy lost\namdgpu_xcp_1 unhealthy hung\n")
        child.send_signal(signal.SIGHUP)
        await holds("they are unhealthy", lambda: plugin.healthy == ("gpu-0", "gpu-1", "gpu-3"))
    await kubelet.stop()


def test_systemd_is_told_of_the_start_and_of_the_end(words: list[str], tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(f"{tmp_path}/notify")
        told.settimeout(SECONDS)
        with started(words, {"NOTIFY_SOCKET": f"{tmp_path}/notify"}) as child:
            assert told.recv(100) == b"READY=1"
            child.send_signal(signal.SIGTERM)
            assert told.recv(100) == b"STOPPING=1"
            assert child.wait(SECONDS) == 0


def test_options_name_files_resources_and_forms() -> None:
    found = settings("--inventory", "scan", "--resource", "rdma=x.io/nic", "--offer", "rdma=shares:4")
    assert found.directory == PLUGIN_DIRECTORY
    assert [(resource.name, resource.offer.shares) for resource in found.resources] == [("x.io/nic", 4)]


def test_the_numbers_of_scanned_devices_are_kept_where_the_operator_says(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "host", small_machine(pci=[{"address": "0000:10:00.0", "class": 0x030200}]))
    words = ("--inventory", "scan", "--sysfs-root", str(root), "--state-dir", str(tmp_path / "state"))
    assert settings(*words).sources.read().problems == ()
    assert (tmp_path / "state" / NUMBERS.name).exists()


@pytest.mark.parametrize(
    ("more", "status", "problem"),
    [
        (["--resource", "gpu"], 2, "--resource gpu: expected TYPE=VALUE"),
        (["--offer", "fpga=shares:2"], 2, "fpga cannot be offered in shares"),
        (["--links", "absent"], 1, "absent: cannot be read"),
    ],
)
def test_what_cannot_be_used_is_named(
    words: list[str], more: list[str], status: int, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([*words, *more]) == status
    assert problem in capsys.readouterr().err


def test_without_an_inventory_it_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["device-plugin"]) == 2
    assert "--inventory" in capsys.readouterr().err
