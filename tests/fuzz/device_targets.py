"""The readers of what others say of devices: CDI specifications, drivers, plugins, pods, the links of GPUs."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cri_proxy.cri.claim import of_annotation, of_variables
from cri_proxy.cri.device_names.names import MAX_NAMES, pci_address
from cri_proxy.cri.device_names.nvidia_gpus import NvidiaGpus, read_information, read_part_minors, read_toolkit
from cri_proxy.cri.device_names.variables import named_in_variables
from cri_proxy.device_files.cdi import DIRECTORIES, CdiFiles
from cri_proxy.errors import StoreError
from cri_proxy.inventory.numbers import NUMBERS, DeviceNumbers
from cri_proxy.runtime.cdi_support import support_of
from policies.devices import (
    ANNOTATION_PREFIX,
    PluginVariableError,
    allocated_annotations,
    read_annotated,
)
from policies.devices.links import LinkError, link_annotation, read_annotation, read_links
from tests.fuzz.budget import Budget
from tests.fuzz.target import Target, text_of
from tests.unit.policies.build import request

CDI_SEED: Final = (
    b'{"cdiVersion":"1.1.0","kind":"vendor.com/class","devices":[{"name":"gpu0","containerEdits":{"deviceNodes":'
    b'[{"path":"/dev/gpu0"}],"env":["PCIDEVICE_A=0000:3b:02.1"],"netDevices":[{"hostInterfaceName":"eth1"}]}}],'
    b'"containerEdits":{"mounts":[{"hostPath":"/sys/bus/pci/devices/0000:3b:02.1","containerPath":"/x"}]}}'
)
TOOLKIT_CHARS: Final = 64 << 10  # more of its configuration is not read


def plugin_variable(data: bytes) -> None:
    """What is understood is written again and means the same."""
    try:
        devices = read_annotated({f"{ANNOTATION_PREFIX}rdma": text_of(data)})
    except PluginVariableError as error:
        assert error.problem
    else:
        assert read_annotated(allocated_annotations(devices)) == devices


def saved_numbers(data: bytes) -> None:
    """The numbers of devices in the state directory; what is understood is written again and means the same."""
    try:
        numbers = NUMBERS.decode(data, "f")
    except StoreError as error:
        assert error.problem
    else:
        assert NUMBERS.decode(_saved(numbers), "f") == numbers


def _saved(numbers: DeviceNumbers) -> bytes:
    return json.dumps(NUMBERS.document(numbers)).encode()


def gpu_links(data: bytes) -> None:
    """The text of nvidia-smi topo -m; what is understood has a link of each two devices, there and back."""
    try:
        matrix = read_links(text_of(data))
    except LinkError as error:
        assert error.problem
    else:
        devices = len(matrix.gpus) + len(matrix.nics)
        assert len(matrix.links) == devices * (devices - 1)


def published_links(data: bytes) -> None:
    """The word that a node publishes; what is understood is written again, and read as the same matrix."""
    try:
        matrix = read_annotation(text_of(data))
    except LinkError as error:
        assert error.problem
    else:
        assert read_annotation(link_annotation(matrix)) == matrix


def chosen_cpus(data: bytes) -> None:
    """What is said of CPUs that were chosen for a container: a claim of some CPUs, or a problem of bounded length."""
    text = text_of(data)
    for found in (of_variables((("DRA_CPUSET_a", text),)), of_annotation(text, request("p/c", 10**12))):
        assert found.claim is None or found.claim.cpus
        assert all(len(str(problem)) < 4096 for problem in found.problems)


def cdi_file(data: bytes) -> None:
    """What is not understood has no devices."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / DIRECTORIES[1] / "vendor.json"
        file.parent.mkdir(parents=True)
        file.write_bytes(data)
        CdiFiles(Path(directory)).named([("vendor.com/class=gpu0", "")])
        CdiFiles(Path(directory)).resolve(("vendor.com/class=gpu0",))


def device_variables(data: bytes) -> None:
    """Variables of a container, NAME=VALUE a line; what is too much is told."""
    pairs = (line.partition("=") for line in text_of(data).split("\n"))
    found = named_in_variables({name: value for name, _, value in pairs})
    assert len(found.names) <= MAX_NAMES
    assert all(name.text and name.via for name in found.names)


def gpu_information(data: bytes) -> None:
    """The driver's file of a GPU, its list of parts and the toolkit's configuration; a GPU has a PCI address."""
    text = text_of(data)
    found = read_information(text, "0000:3b:00.0")
    assert found is not None
    assert pci_address(found.address) == found.address
    gpus = NvidiaGpus((found,), parts=read_part_minors(text.splitlines()), toolkit=read_toolkit(text[:TOOLKIT_CHARS]))
    assert len(gpus.called(text)) <= 1


def runtime_config(data: bytes) -> None:
    """What a runtime says of its configuration: anything, and how it takes CDI names follows."""
    assert support_of("containerd", "1.7.2", text_of(data)).why


DEVICE_TARGETS: Final = (
    Target(
        "runtime-config",
        runtime_config,
        (b'{"containerd":{"snapshotter":"overlayfs"},"enableCDI":true,"cdiSpecDirs":["/etc/cdi","/var/run/cdi"]}',),
        grown=(b'"/etc/cdi",', b'{"a":', b"["),
    ),
    Target(
        "chosen-cpus",
        chosen_cpus,
        (b"0-3,8", b'{"cpuset":"0-3","numaNodeResources":[{"node":1,"resources":{"cpu":"4"}}]}', b"dynamic"),
        grown=(b"0,", b'{"node":1},', b"["),
    ),
    Target(
        "device-numbers",
        saved_numbers,
        (_saved(DeviceNumbers((("gpu", "0000:10:00.0", 0), ("rdma", "0000:20:00.0", 3)), "5a9f")),),
    ),
    Target("plugin-variable", plugin_variable, (b"0,1,2", b"1@0000:51:00.1,2:25"), grown=(b"1,", b"12@a:b.c,")),
    Target(
        "cdi",
        cdi_file,
        (CDI_SEED,),
        Budget(rounds=500_000),  # a directory is made, and read
        grown=(b'{"name":"a"},', b'{"path":"/dev/a"},'),
    ),
    Target(
        "gpu-links",
        gpu_links,
        (b"\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tPIX\t0-3\t0\nNIC0\tPIX\tX\n\n  NIC0: mlx5_0\n",),
        grown=(b"GPU0 X PIX\n", b"NIC0: a\n"),
    ),
    Target(
        "published-links",
        published_links,
        (b"v1.0t3a5.n0x2n1a2u.v12sx4v12uhmp", b"v1.none", b"v1.0t31.ux32.v1x496"),
        Budget(rounds=1_000_000, memory_bytes=4 << 20),  # 32 GPUs have 496 links, read and written twice
        grown=(b"x4", b"v1", b"0a", b"n0a1"),
    ),
    Target(
        "device-variables",
        device_variables,
        (
            b"NVIDIA_VISIBLE_DEVICES=0,GPU-8f6b,0:1,MIG-GPU-8f6b/1/0\nPCIDEVICE_NIC=0000:3b:02.1,mlx5_core.sf.4",
            b'PCIDEVICE_NIC_INFO={"0000:3b:02.1":{"generic":{"deviceID":"0000:3b:02.1"}}}',
            b"MDEV_PCI_RESOURCE_T4=83b8f4f2-509f-382f-3c1e-e6bfe0fa1001",
        ),
        grown=(b"0000:3b:02.1,", b'{"0000:3b:02.1":', b"PCIDEVICE_A=a\n", b"a.b.1,"),
    ),
    Target(
        "gpu-information",
        gpu_information,
        (
            b"Model: \t NVIDIA A100\nGPU UUID: \t GPU-8f6b\nBus Location: \t 0000:3b:00.0\nDevice Minor: \t 3\n",
            b"config 1\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n",
            b"accept-nvidia-visible-devices-as-volume-mounts = true\n[nvidia-container-cli]\nroot = '/x'\n",
        ),
        grown=(b"gpu0/gi1/access 12\n", b"GPU UUID:", b"[a.", b"GPU-"),
    ),
)
