from cri_proxy.node.replan import RACES, off_loop
from tests.fakes.grants import ledger_with, row


async def test_work_that_was_overtaken_is_made_again_from_the_newest_state() -> None:
    ledger = ledger_with(row("a"))
    looks: list[int] = []

    def count() -> int:
        looks.append(len(ledger.allocations.grants))
        if len(looks) == 1:  # a decision is made meanwhile
            ledger.put(row("b"))
        return looks[-1]

    assert (await off_loop(lambda: ledger.version, lambda: count), looks) == (2, [1, 2])


async def test_after_some_lost_races_it_is_made_where_no_decision_can_come_in_between() -> None:
    ledger = ledger_with(row("a"))
    looks: list[int] = []

    def disturb() -> None:
        looks.append(ledger.version)
        ledger.put(row("a"))

    await off_loop(lambda: ledger.version, lambda: disturb)
    assert len(looks) == RACES + 1
