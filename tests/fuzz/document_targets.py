"""The readers of the commands that answer documents: costs, hints, and the file that holds them."""

import argparse
import contextlib
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.cli.device_actions.request import read_document, read_question
from cri_proxy.cli.documents import DocumentCommand, DocumentOption
from cri_proxy.cli.hint_actions.merge import read_merge_request
from cri_proxy.cli.hint_requests.cpu import read_cpu, read_topology
from cri_proxy.cli.hint_requests.devices import read_devices
from cri_proxy.cli.hint_requests.memory import read_memory
from cri_proxy.costs.cost_file import read_costs
from cri_proxy.costs.merge import merge
from cri_proxy.in_force.file_state import texts_in_force
from cri_proxy.in_force.report import FileState
from cri_proxy.in_force.text_files import FoundFiles, TextFile
from cri_proxy.yaml_fields import DocumentError, YamlField
from policies.devices import (
    AnnotationError,
    CannotAllocate,
    DemandError,
    DeviceAllocation,
    DeviceAllocator,
    DeviceQuestion,
)
from policies.devices.costs import CostError, CostTable, Normalize, compile_costs, cost_text, with_colons
from sysfs.documents.forms import whole
from tests.fuzz.budget import Budget
from tests.fuzz.target import Target, text_of, yaml_seeds

DOCUMENTS: Final = Dialect(max_bytes=64 << 20, max_depth=40, max_nodes=4_000_000, has_aliases=True)
NICS: Final = "b.com/nic/nic0: {5: [cpu/cpu0-3]}\n"
DEVICES: Final = (
    b"inventory: {gpu: [{minor: 0, numa: 0, pcie: p0, resources: {gpu-memory: 80Gi}}, {minor: 1, numa: -1}],\n"
    b" rdma: [{minor: 0, numa: 0, pcie: p0, vf_groups: [{labels: {a: b}, vfs: [{minor: 0, bus: '0000:11:00.1'}]}]}],\n"
    b" partitions: {2: [{minors: [0, 1], score: 2, bandwidth: 1Gi}]}}\n"
    b"requests: {koordinator.sh/gpu-core: 50, gpu-memory: 8Gi, koordinator.sh/rdma: 1}\n"
    b'annotations: {scheduling.koordinator.sh/device-joint-allocate: \'{"deviceTypes": ["gpu", "rdma"]}\',\n'
    b" scheduling.koordinator.sh/device-allocate-hint: {rdma: {vfSelector: {matchLabels: {a: b}}}}}\n"
    b"in_use: [{gpu: [{minor: 0, amount: 20, exclusive: PCIeLevel}], rdma: [{minor: 0, amount: 1}]}]\n"
)
DEVICE_OBJECT: Final = (
    b"inventory: {kind: Device, metadata: {annotations: {scheduling.koordinator.sh/gpu-partitions:"
    b' \'{"1": [{"minors": [0]}]}\'}}, spec: {devices: [{type: gpu, minor: 0, topology: {nodeID: 0, pcieID: a}}]}}\n'
    b"requests: {nvidia.com/gpu: 1}\nnode_labels: {gpu-partition-policy: Honor}\n"
)
SIZE: Final = DocumentOption("size", whole, 0, "")


def fields_of(data: bytes) -> list[YamlField]:
    """The documents of a text, with the limits of the commands that read them, as far as they can be read."""
    found: list[YamlField] = []
    with contextlib.suppress(DocumentError):
        found.extend(YamlField.documents(text_of(data), "f", DOCUMENTS))
    return found


def cost_listing(data: bytes) -> None:
    """What is understood is written again and has the same costs between the same instances."""
    for root in fields_of(with_colons(text_of(data)).encode()):
        try:
            listing = read_costs(root)
            table = compile_costs(listing)
        except (DocumentError, CostError) as error:
            assert error.problem
            continue
        (again,) = fields_of(cost_text(listing).encode()) or (None,)
        assert again is None or costs_by_name(compile_costs(read_costs(again))) == costs_by_name(table)


def cost_files(data: bytes) -> None:
    """A file of any content beside one that is in force: that one stays, and what it lists; nothing is raised."""
    found = FoundFiles(Path("/d"), (TextFile("a.yaml", text_of(data)), TextFile("b.yaml", NICS)))
    merged = merge(found, {"b.yaml": NICS}, Normalize.PER_TYPE_MAX)
    states = {file.name: file.state for file in merged.files}
    assert states["b.yaml"] is FileState.IN_FORCE
    assert "b.com/nic/nic0" in merged.content.devices["b.com/nic"]
    for file in merged.files:
        assert (file.state is FileState.IN_FORCE) == (not file.problem)
    again = merge(found, texts_in_force(found, {"b.yaml": NICS}, merged.files), Normalize.PER_TYPE_MAX)
    assert again.content == merged.content


def costs_by_name(table: CostTable) -> dict[tuple[str, str], Fraction]:
    """The cost of each ordered pair of instances that has one."""
    return {
        (one, other): Fraction(cost, table.scale)
        for group, row in zip(table.groups, table.costs, strict=True)
        for target, cost in row.items()
        for one in group.members
        for other in table.groups[target].members
        if one != other
    }


def hints_to_merge(data: bytes) -> None:
    for root in fields_of(data):
        try:
            assert read_merge_request(root).nodes.mask > 0
        except DocumentError as error:
            assert error.problem


def hints_request(data: bytes) -> None:
    """A request without a machine: its topology, CPUs, memory and devices."""
    for root in fields_of(data):
        try:
            fields = root.mapping(("topology", "cpu", "memory", "devices"), "the document")
            topology = read_topology(fields.get("topology", root))
            for key, field in fields.items():
                if key == "cpu":
                    assert read_cpu(field, topology).free >= 0
                elif key == "memory":
                    assert read_memory(field, topology.nodes, {}).request is not None
                elif key == "devices":
                    assert read_devices(field, topology.nodes, has_preferred_sets=True).requests is not None
        except DocumentError as error:
            assert error.problem


def device_request(data: bytes) -> None:
    """An inventory with a request: an answer gives no device twice, and can be put beside what is in use."""
    for root in fields_of(data):
        try:
            found, fields = read_document(root)
            answer = DeviceAllocator(found.inventory).allocate(read_question(root, fields), found.held)
        except (DocumentError, AnnotationError, DemandError) as error:
            assert str(error)
            continue
        if isinstance(answer, CannotAllocate):
            assert answer.problem
            continue
        assert len({grant.key for grant in answer.grants}) == len(answer.grants)
        held = (*found.held, *answer.grants)
        assert DeviceAllocator(found.inventory).allocate(DeviceQuestion({}), held) == DeviceAllocation(())


def document_file(data: bytes) -> None:
    """A file of documents: each has its answer, or is told with its line."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / "f.yaml"
        file.write_bytes(data)
        try:
            found = list(DocumentCommand((SIZE,), str, str).documents(argparse.Namespace(file=str(file), size=None)))
        except DocumentError as error:
            assert error.problem
            return
    for document in found:
        if isinstance(document, DocumentError):
            assert document.problem
        else:
            with contextlib.suppress(DocumentError):
                assert document.option(SIZE) >= 0


DOCUMENT_TARGETS: Final = (
    Target(
        "costs",
        cost_listing,
        (
            *yaml_seeds("costs/*example.yaml"),
            b"a/x0-1:\n  - 20\n    - cpu/cpu01-3\n    - a/x0\nb/y: {2.5: b/z}\nc/w:\n",
        ),
        Budget(rounds=500_000, rounds_a_byte=1_000, memory_bytes=8 << 20, memory_a_byte=2_000),  # ranges of 8192 names
        grown=(b"a/b0-8:\n", b"- cpu/cpu1\n", b"a/x0: {1: [b/y0]}\n"),
    ),
    Target(
        "cost-files",
        cost_files,
        (
            *yaml_seeds("costs/*example.yaml"),
            b"costs: {a/x0-1: {10: [b.com/nic/nic0, cpu/cpu1]}}\npresent: [a/x3]\n",
            b"b.com/nic/nic0: {5: [cpu/cpu2-4]}\n",
            b"b.com/nic/nic0: {6: [cpu/cpu2-4]}\n",
        ),
        Budget(rounds=1_000_000, rounds_a_byte=2_000, memory_bytes=8 << 20, memory_a_byte=2_000),  # merged twice
        grown=(b"a/b0-8:\n", b"- cpu/cpu1\n", b"a/x0: {1: [b/y0]}\n"),
    ),
    Target(
        "hints-to-merge",
        hints_to_merge,
        yaml_seeds("hints/merge.yaml"),
        Budget(rounds=500_000, rounds_a_byte=1_000, memory_bytes=1 << 20, memory_a_byte=2_000),
        grown=(b"- {cpu: []}\n", b"{nodes: [0], preferred: true},"),
    ),
    Target(
        "hints-request",
        hints_request,
        (
            b"topology: {nodes: {0: '0-3', 1: '4-7'}, sockets: {0: [0, 1]}}\n"
            b"cpu: {request: 2, free: '1-7', allocated: null, reusable: '', options: [align-by-socket]}\n"
            b"memory: {request: {memory: 1Gi, hugepages-2Mi: 64Mi}, nodes: {0: {memory: 8Gi}}, groups: [[0, 1]]}\n"
            b"devices: {a/b: {request: 1, devices: {d: [0], e: []}, used: [d], preferred: [[e]]}}\n",
        ),
        Budget(rounds=500_000, rounds_a_byte=1_000, memory_bytes=1 << 20, memory_a_byte=2_000),
        grown=(b"0: 1\n", b"- 0\n", b"a: {request: 1, devices: {d: [0]}}\n"),
    ),
    Target(
        "device-request",
        device_request,
        (*yaml_seeds("devices/partitions.yaml"), DEVICES, DEVICE_OBJECT),
        Budget(rounds=1_000_000, rounds_a_byte=4_000, memory_bytes=2 << 20, memory_a_byte=4_000),
        grown=(b"- {minor: 7, numa: 1}\n", b"{minor: 1, bus: 'a'},", b"koordinator.sh/rdma: 1\n"),
    ),
    Target(
        "documents",
        document_file,
        (
            b"%YAML 1.1\n---\noptions: {size: 1}\n...\n%TAG ! tag:a,2000:\n# c\n---\na: [\n---\n---\n",
            b"options: {size: 010}\n---\noptions: {size: [1]}\n",
        ),
        Budget(rounds=500_000, rounds_a_byte=1_000, memory_bytes=1 << 20, memory_a_byte=2_000),  # a file is written
        grown=(b"---\n", b"%\n\n"),
    ),
)
