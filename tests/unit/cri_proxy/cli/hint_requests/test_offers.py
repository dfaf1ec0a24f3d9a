import json

from cri_proxy.cli.hint_requests.offers import HINTS
from policies.hints import Hint, Hints
from tests.unit.cri_proxy.cli.hint_requests.build import field


def test_hints_that_are_written_are_read_again() -> None:
    offered: tuple[Hints, ...] = (None, (), (Hint(0b11, True), Hint(None, False)))
    for hints in offered:
        provider = field(json.dumps({"cpu": HINTS.write(hints)})).entries("it")
        assert HINTS.read(provider["cpu"], "cpu") == hints


def test_a_hint_is_written_as_a_list_of_nodes_or_null_for_any() -> None:
    assert HINTS.write((Hint(0b101, True), Hint(None, False))) == [
        {"nodes": [0, 2], "preferred": True},
        {"nodes": None, "preferred": False},
    ]
