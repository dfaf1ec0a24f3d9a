from pathlib import Path

import pytest

from cri_proxy.cli.device_actions.request import read_document, read_question
from cri_proxy.inventory.file import DIALECT
from cri_proxy.yaml_fields import DocumentError, YamlField
from policies.device_grants import DeviceGrant, ExclusivePolicy
from policies.devices import DeviceQuestion

INVENTORY = (
    "inventory: {gpu: [{minor: 0}], rdma: [{minor: 0, vf_groups: [{vfs: [{minor: 3, bus: '0000:1a:00.1'}]}]}]}\n"
)


def root_of(text: str, directory: Path = Path()) -> YamlField:
    (root,) = YamlField.documents(text, str(directory / "request.yaml"), DIALECT)
    return root


def held(in_use: str) -> tuple[DeviceGrant, ...]:
    found, _ = read_document(root_of(f"{INVENTORY}in_use: {in_use}"))
    return found.held


def question(text: str) -> DeviceQuestion:
    root = root_of(INVENTORY + text)
    _, fields = read_document(root)
    return read_question(root, fields)


def test_a_path_of_an_inventory_starts_at_the_file(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text("gpu: [{minor: 5}]")
    found, _ = read_document(root_of("inventory: node.yaml", tmp_path))
    assert found.inventory.devices[0].minor == 5


def test_requests_of_devices_are_read_and_others_left_out() -> None:
    asked = question("requests: {nvidia.com/gpu: 1, cpu: 500m, memory: 1Gi, example.com/foo: 2}")
    assert asked.requests == {"nvidia.com/gpu": 1}


def test_names_may_lack_koordinators_domain_and_numbers_have_a_suffix() -> None:
    asked = question("requests: {gpu-core: 1k, koordinator.sh/gpu-memory: 1Gi, rdma: 2000m}")
    assert asked.requests == {
        "koordinator.sh/gpu-core": 1000,
        "koordinator.sh/gpu-memory": 1 << 30,
        "koordinator.sh/rdma": 2,
    }


def test_annotations_may_be_texts_or_mappings() -> None:
    key = "scheduling.koordinator.sh/device-joint-allocate"
    as_text = question(f'requests: {{rdma: 1}}\nannotations: {{{key}: \'{{"deviceTypes": ["gpu"]}}\', note: 5}}')
    as_mapping = question(f"requests: {{rdma: 1}}\nannotations: {{{key}: {{deviceTypes: [gpu]}}}}")
    assert as_text.annotations.joint is not None
    assert as_text.annotations == as_mapping.annotations


def test_the_annotation_pool_choice_spreads_shares() -> None:
    asked = "requests: {gpu-memory-ratio: 50}\nannotations: {cri-proxy.io/pool-choice: %s}"
    assert question(asked % "spread").spreads
    assert not question(asked % "pack").spreads


def test_what_is_in_use_may_stand_in_one_mapping_or_in_one_for_each_container() -> None:
    one = held("{gpu: [{minor: 0, amount: 50, resources: {gpu-core: 50}, exclusive: DeviceLevel}], rdma: [{minor: 0}]}")
    assert one == (
        DeviceGrant("gpu", 0, 50, "", (("koordinator.sh/gpu-core", 50),), ExclusivePolicy.DEVICE_LEVEL),
        DeviceGrant("rdma", 0, 100),
    )
    assert held("[{gpu: [{minor: 0, amount: 1}]}, {gpu: [{minor: 0, amount: 2}]}]") == (
        DeviceGrant("gpu", 0, 1),
        DeviceGrant("gpu", 0, 2),
    )


@pytest.mark.parametrize("vf", ["'0000:1A:00.1'", "3", "{minor: 3, bus: '0000:1a:00.1'}", "{minor: 3}"])
def test_a_vf_is_named_by_its_address_or_minor(vf: str) -> None:
    assert held(f"{{rdma: [{{minor: 0, vf: {vf}}}]}}") == (DeviceGrant("rdma", 0, 1, "0000:1a:00.1"),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("requests: {}", "request.yaml:2: requests: none of them is a device; those are nvidia.com/gpu, "),
        ("in_use: {}", "request.yaml:1: the document: requests is missing; give quantities of one container"),
        ("requests: {nvidia.com/gpus: 1}", "request.yaml:2: requests: 'nvidia.com/gpus' is not known; did you mean "),
        ("requests: {gpu-core: 1, koordinator.sh/gpu-core: 1}", "request.yaml:2: requests: koordinator.sh/gpu-core "),
        ("requests: {rdma: 1500m}", "request.yaml:2: requests.rdma: expected a whole number, got '1500m'; "),
        ("request: {}", "request.yaml:2: the document: unknown key 'request'; did you mean requests?"),
        ("in_use: {gpu: [{minor: 7}]}", "request.yaml:2: in_use.gpu: the inventory has no gpu 7; it has 0"),
        ("in_use: {gpu: [{amount: 7}]}", "request.yaml:2: in_use.gpu: minor is missing; name the device"),
        ("in_use: {fpga: [{minor: 0}]}", "request.yaml:2: in_use.fpga: the inventory has no fpga 0; it has none"),
        ("in_use: {rdma: [{minor: 0, vf: x}]}", "request.yaml:2: in_use.rdma.vf: 'x' is no VF of rdma 0; it has "),
        ("in_use: {rdma: [{minor: 0, vf: {}}]}", "request.yaml:2: in_use.rdma.vf: give its bus"),
        ("in_use: {gpu: [{minor: 0, exclusive: x}]}", "request.yaml:2: in_use.gpu.exclusive: expected one of "),
    ],
)  # fmt: skip
def test_an_error_names_the_line_and_the_remedy(text: str, said: str) -> None:
    with pytest.raises(DocumentError) as caught:
        question(text)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("text", ["gpu: [{minor: 0}]", "kind: Device\nspec: {devices: []}"])
def test_an_inventory_alone_asks_for_nothing(text: str) -> None:
    with pytest.raises(DocumentError, match="an inventory alone; give its path as inventory: beside what is asked"):
        read_document(root_of(text))


def test_a_document_has_an_inventory() -> None:
    with pytest.raises(DocumentError, match="inventory is missing; give the devices of the node"):
        read_document(root_of("requests: {}"))
