from pathlib import Path

import pytest

from cri_proxy.config.option_groups import CostOptions
from cri_proxy.simulate.scenario.costs import inventory_of, read_cost_text
from cri_proxy.simulate.scenario.model import CostText
from cri_proxy.simulate.scenario.parse import documents
from cri_proxy.yaml_fields import DocumentError
from policies.devices.costs import NO_DEVICES, Missing

LISTING = "x.io/gpu/gpu0-1:\n- 5\n  - x.io/gpu/gpu0-1\nx.io/nic/eth0:\n"
GPUS = ("x.io/gpu/gpu0", "x.io/gpu/gpu1")


def written(text: str, source: str = "s.yaml") -> CostText:
    (field,) = documents(text, source)
    return read_cost_text(field, "costs")


def test_a_listing_gives_its_devices() -> None:
    inventory = inventory_of(written("{x.io/gpu/gpu0-1: {5: [x.io/gpu/gpu0-1, cpu/cpu0]}}"), CostOptions())
    assert inventory.devices == {"x.io/gpu": GPUS}


def test_a_file_stands_beside_the_scenario_and_may_lack_colons(tmp_path: Path) -> None:
    (tmp_path / "costs.yaml").write_text(LISTING)
    found = written("costs.yaml", str(tmp_path / "s.yaml"))
    assert inventory_of(found, CostOptions()).devices == {"x.io/gpu": GPUS, "x.io/nic": ("x.io/nic/eth0",)}


def test_the_options_say_how_it_is_read() -> None:
    inventory = inventory_of(CostText("s.yaml", LISTING.replace("- 5", "- 5:")), CostOptions(missing=Missing.MIRROR))
    assert inventory.missing is Missing.MIRROR


def test_without_costs_there_are_no_devices() -> None:
    assert inventory_of(None, CostOptions()) is NO_DEVICES
    assert inventory_of(written("{}"), CostOptions()).devices == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\n\n{x.io/gpu/gpu0: {-1: [cpu/cpu0]}}", "s.yaml:3: costs: "),
        ("[x.io/gpu/gpu0]", "s.yaml:1: costs: "),
        ("nowhere.yaml", "nowhere.yaml: cannot be read"),
    ],
)
def test_costs_that_cannot_be_used_are_named_with_their_place(text: str, problem: str) -> None:
    with pytest.raises(DocumentError) as caught:
        inventory_of(written(text), CostOptions())
    assert str(caught.value).startswith(problem)


def test_a_mistake_in_a_file_is_named_with_its_own_line() -> None:
    with pytest.raises(DocumentError, match=r"^/d/c.yaml:2: costs: "):
        inventory_of(CostText("/d/c.yaml", "x.io/gpu/gpu0:\n- -1: [cpu/cpu0]\n"), CostOptions())


def test_a_mistake_is_quoted_as_the_scenario_is_the_readers_own() -> None:
    with pytest.raises(DocumentError, match=r"^/d/c.yaml:1: costs: 'gpu0': expected one name of the form"):
        inventory_of(CostText("/d/c.yaml", "gpu0: {1: [cpu/cpu0]}\n"), CostOptions())
