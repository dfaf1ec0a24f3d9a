from collections.abc import Sequence
from dataclasses import replace

from cri_proxy.node.replan import RACES, replan
from policies.base import Allocations, Request
from tests.fakes.grants import ledger_with, request, row


async def test_a_re_plan_that_was_overtaken_is_made_again_from_the_newest_state() -> None:
    ledger = ledger_with(row("a"))
    looks: list[int] = []

    def inputs() -> tuple[Allocations, Sequence[Request]]:
        seen = ledger.allocations
        looks.append(len(seen.grants))
        if len(looks) == 1:  # somebody decides while this one is worked on
            ledger.put(replace(row("b")))
        return seen, ()

    result = await replan(ledger, ledger.policy, inputs)
    assert (looks, len(result.kept)) == ([1, 2], 2)


async def test_after_some_lost_races_it_is_made_where_nobody_can_come_in_between() -> None:
    ledger = ledger_with(row("a"))
    looks: list[int] = []

    def inputs() -> tuple[Allocations, Sequence[Request]]:
        looks.append(ledger.version)
        seen = ledger.allocations
        ledger.put(row("a"))
        return seen, (request("new", 1000),)

    result = await replan(ledger, ledger.policy, inputs)
    assert (len(looks), len(result.allocations.grants)) == (RACES + 1, 2)
