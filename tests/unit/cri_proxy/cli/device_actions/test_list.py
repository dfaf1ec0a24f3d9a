import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from cri_proxy.cli.main import run_command
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from sysfs.descriptions.machine import describe
from tests.fakes.nvidia_tree import write_gpu
from tests.fakes.sysfs_tree import write_tree

CONFIGS = Path(__file__).parents[5] / "configs" / "devices"
MACHINE = (
    "{packages: 2, cores: 2, memory: 1Gi, pci: [{address: '0000:3b:00.0', class: '0x030200', node: 1},"
    " {address: '0000:3c:00.0', class: '0x020000', node: 1}]}"
)


def test_a_request_shows_what_is_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["devices", "list", str(CONFIGS / "exclusive.yaml")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "NUMA node 0",
        "  PCIe switch0",
        "    gpu 0       0000:10:00.0  80Gi of memory",
        "    rdma 0      0000:11:00.0  2 VFs (1 in use), speed=400G, 99 of 100 free",
    ]


def test_the_devices_of_a_machine_are_printed_as_an_inventory(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_command(["devices", "list", "--machine", MACHINE, "-o", "json"]) == 0
    text = capsys.readouterr().out
    assert [device["numa"] for device in json.loads(text)["gpu"]] == [1]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run_command(["devices", "list", "-", "-o", "json"]) == 0
    assert capsys.readouterr().out == text


def test_a_file_and_a_machine_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["devices", "list", "a.yaml", "--machine", "host"]) == 2
    assert "leave one out" in capsys.readouterr().err


def test_a_machine_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["devices", "list", "--machine", "/nonexistent"]) == 1
    assert capsys.readouterr().err.startswith("cri-proxy devices: ")


class Kubelet:
    """Serves the pod resources API on a socket: a GPU on node 1 that a container has, and a device of no type."""

    def __init__(self, socket: Path) -> None:
        self._server = grpc.server(ThreadPoolExecutor(1))
        gpu = pb.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=["GPU-a"])
        gpu.topology.nodes.add(ID=1)
        other = pb.ContainerDevices(resource_name="devices.kubevirt.io/kvm", device_ids=["kvm0"])
        has = pb.PodResources(name="p", namespace="ml", containers=[pb.ContainerResources(name="c", devices=[gpu])])
        answers = {
            "GetAllocatableResources": pb.AllocatableResourcesResponse(devices=[gpu, other]),
            "List": pb.ListPodResourcesResponse(pod_resources=[has]),
        }
        handlers = {name: _answering(answer.SerializeToString()) for name, answer in answers.items()}
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers)])
        self._server.add_insecure_port(f"unix:{socket}")

    def __enter__(self) -> None:
        self._server.start()

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()


def _answering(answer: bytes) -> "grpc.RpcMethodHandler[bytes, bytes]":
    return grpc.unary_unary_rpc_method_handler(lambda _request, _context: answer)


def test_what_plugins_have_registered_with_the_kubelet_is_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    socket = tmp_path / "kubelet.sock"
    with Kubelet(socket):
        assert run_command(["devices", "list", "--kubelet", str(socket)]) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "NUMA node 1",
        "  PCIe unknown",
        "    gpu 0         0 of 100 free, held by ml/p/c",
        "other resources: devices.kubevirt.io/kvm",
    ]


def test_json_says_which_pod_has_a_device_of_a_plugin_and_yaml_is_an_inventory(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = tmp_path / "kubelet.sock"
    with Kubelet(socket):
        assert run_command(["devices", "list", "--kubelet", str(socket), "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["holders"] == [
            {"container": "ml/p/c", "type": "gpu", "minor": 0, "resource": "nvidia.com/gpu", "ids": ["GPU-a"]}
        ]
        assert run_command(["devices", "list", "--kubelet", str(socket), "-o", "yaml"]) == 0
    text = capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run_command(["devices", "list", "-"]) == 0


def test_without_a_kubelet_its_socket_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run_command(["devices", "list", "--kubelet", str(tmp_path / "none.sock")]) == 1
    assert "the kubelet does not answer on" in capsys.readouterr().err


def test_why_a_device_of_a_machine_is_missing_stands_below_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gpus = [{"address": f"0000:{bus}:00.0", "class": "0x030200", "node": 0} for bus in (10, 20)]
    root = write_tree(tmp_path / "host", describe({"pci": gpus}))
    ((root / "sys/bus/pci/devices/0000:20:00.0").resolve() / "class").write_text("?\n")
    assert run_command(["devices", "list", "--machine", str(root)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "gpu 0 0000:10:00.0 note: sys/devices/" in text
    assert "0000:20:00.0/class: expected a hexadecimal number, got '?'; the device is left out" in text


def test_the_gpus_of_a_machine_have_the_identifiers_of_their_driver(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu = {"address": "0000:3b:00.0", "class": "0x030200", "node": 0}
    root = write_tree(tmp_path / "host", describe({"pci": [gpu]}))
    write_gpu(root, "0000:3b:00.0", 4, "GPU-5a")
    assert run_command(["devices", "list", "--machine", str(root), "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["gpu"]
    assert (found["minor"], found["uuid"]) == (0, "GPU-5a")
