from pathlib import Path

from cri_proxy.costs.merge import merge
from cri_proxy.costs.words import listed_text, silent_text
from cri_proxy.in_force.text_files import FoundFiles, TextFile
from policies.devices.costs import CostLine, CostListing, Inventory, Missing, compile_costs

HERE = Path("/d")


def test_what_files_list_is_counted_by_type() -> None:
    found = FoundFiles(HERE, (TextFile("a.yaml", "a.com/x/x0-3:\n"),))
    assert listed_text(found, merge(found, {})) == "/d, 1 file: a.com/x 4"
    assert listed_text(FoundFiles(HERE), merge(FoundFiles(HERE), {})) == ""


def inventory(count: int, missing: Missing) -> Inventory:
    silent = tuple(f"a.com/x/x{i + 1}" for i in range(count))
    lines = (CostLine(("a.com/x/x0",), 5, ("cpu/cpu0", *silent)), CostLine(("b.com/y/y0",), 5, ("cpu/cpu0",)))
    return Inventory(compile_costs(CostListing(lines)), missing)


def test_devices_that_are_chosen_for_their_silence_are_named() -> None:
    text = silent_text(inventory(7, Missing.ZERO))
    assert text.startswith(
        "a.com/x/x1, a.com/x/x2, a.com/x/x3, a.com/x/x4, a.com/x/x5 and 2 more say nothing about costs"
    )
    assert silent_text(inventory(1, Missing.ZERO)).startswith("a.com/x/x1 says nothing about costs")


def test_silence_wins_nothing_where_costs_count_both_ways_and_all_may_be_silent() -> None:
    assert silent_text(inventory(7, Missing.MIRROR)) == ""
    assert silent_text(inventory(0, Missing.ZERO)) == ""
