from pathlib import Path

import pytest

from cri_proxy.simulate.scenario.costs import listed_words, read_listed
from cri_proxy.simulate.scenario.parse import documents
from cri_proxy.yaml_fields import DocumentError
from policies.devices import DeviceInventory

LISTED = "{gpu: [{minor: 0}, {minor: 1}], rdma: [{minor: 0}]}"


def read(text: str, source: str = "s.yaml") -> DeviceInventory:
    return read_listed(next(documents(text, source)), "devices")


def test_an_inventory_is_written_out_or_named_from_the_directory_of_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "devices.yaml").write_text(LISTED)
    assert read("devices.yaml", str(tmp_path / "s.yaml")) == read(LISTED)
    assert listed_words(read(LISTED)) == {"gpu": ("gpu/0", "gpu/1"), "rdma": ("rdma/0",)}


@pytest.mark.parametrize("text", ["{gpu: [{minor: x}]}", "{gpus: []}", "missing.yaml"])
def test_one_that_cannot_be_used_is_a_mistake_of_the_scenario(text: str) -> None:
    with pytest.raises(DocumentError):
        read(text)
