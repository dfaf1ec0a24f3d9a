"""The JSON of AMD's tools says what their tables say, or is refused."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from policies.devices.links import LinkError, read_links
from tests.fakes.amd_texts import (
    AmdMachine,
    amd_smi,
    amd_smi_json,
    former_amd_smi_json,
    islands,
    packages,
    rocm_smi,
    rocm_smi_json,
)

EIGHT = islands()
SMI, FORMER, ROCM = amd_smi_json(EIGHT), former_amd_smi_json(EIGHT), rocm_smi_json(EIGHT)
FAILED = "AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported"


def test_json_says_what_the_tables_say() -> None:
    assert read_links(SMI) == read_links(amd_smi(EIGHT))
    assert read_links(amd_smi_json(packages())) == read_links(amd_smi(packages()))
    assert read_links(ROCM) == read_links(rocm_smi(EIGHT))


@pytest.mark.parametrize("machine", [EIGHT, packages()])
def test_the_json_before_rocm_6_3_says_the_same_but_addresses(machine: AmdMachine) -> None:
    found = read_links(former_amd_smi_json(machine))
    whole = read_links(amd_smi_json(machine))
    assert (found.links, found.vendor) == (whole.links, whole.vendor)
    assert found.gpus == tuple(replace(gpu, address="") for gpu in whole.gpus)
    failed = read_links(former_amd_smi_json(EIGHT).replace("50000-50000", FAILED))
    assert failed.links == read_links(FORMER).links


def test_entries_may_be_in_any_order_and_there_may_be_none() -> None:
    entries = json.loads(SMI)
    assert read_links(json.dumps(entries[::-1])) == read_links(SMI)
    assert read_links("[]") == replace(read_links(SMI), gpus=(), links={})


def changed(text: str, change: Callable[[list[dict[str, list[object]]]], object]) -> str:
    found = json.loads(text)
    change(found)
    return json.dumps(found)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (SMI[:-5], "line 881, column 3: JSON: it does not parse; save all that amd-smi topology --json or rocm-smi"),
        ("[" * 100000 + "{", "JSON: it does not parse"),
        (SMI.replace('"weight": 0,', '"weight": 0, "weight": 1,', 1), "weight: the key stands twice"),
        (SMI.replace('"num_hops": 1,', "", 1), "num_hops: missing"),
        (SMI.replace('"num_hops": 1,', '"num_hops": true,', 1), "num_hops: expected a text or number, got 'True'"),
        (SMI.replace('"gpu": 1', '"gpu": "one"'), "gpu: expected the number of a GPU, got 'one'"),
        (SMI.replace('"links": [', '"links": {}, "others": [', 1), "links: of GPU0: expected a list"),
        (changed(SMI, lambda found: found[3]["links"].pop()), "links: of GPU3: 7; expected one to each of 8 GPUs"),
        (changed(SMI, lambda found: found.append(found[0])), "GPU0: it stands twice"),
        ('[{"gpu": 0, "bdf": "0000:05:00.0", "weight": {"gpu_0": 0}}]', "links: missing"),
        ('[{"bdf": "0000:05:00.0"}]', "gpu: missing"),
        ('[{"gpu": 0, "bdf": "05:00", "links": []}]', "bdf: expected a PCI address like 0000:05:00.0, got '05:00'"),
        (SMI.replace("0000:05", "0000:06", 1), "0000:05:00.0: the bdf of GPU0 at GPU0, and 0000:06:00.0 is its own"),
        ('[{"gpu": 0, "links": []}]', "bdf: missing"),
        (FORMER.replace('"hops": {', '"hop": {', 1), "hops: missing"),
        (FORMER.replace('"gpu_7": 15', '"gpu_8": 15', 1), "weight: of GPU4: expected a key for each of 8 GPUs, gpu_4"),
        (FORMER.replace('"gpu_1": "XGMI"', '"gpu_1": "IF"', 1), "IF: link type of GPU0 to GPU1: expected XGMI"),
        ('{"card0": {}}', "system: missing"),
        ('{"system": 1}', "system: expected an object"),
        (
            ROCM.replace("Hops between DRM devices 2 and 5", "Hops between DRM devices 2 and 2"),
            "(Topology) Hops between DRM devices 2 and 5: missing",
        ),
        (ROCM.replace("card7", "cart7"), "card7: missing, and (Topology) Link type between DRM devices has it"),
        (ROCM.replace("Numa Node", "Numa", 1), "(Topology) Numa Node: missing"),
    ],
)
def test_what_is_not_whole_is_refused_by_name(text: str, problem: str) -> None:
    with pytest.raises(LinkError) as caught:
        read_links(text)
    assert str(caught.value).startswith(problem)
