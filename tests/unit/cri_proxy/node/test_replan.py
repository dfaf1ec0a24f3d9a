from cri_proxy.node.replan import RACES, off_loop, without_unpaid_claims
from policies.base import Allocations
from policies.claims import CpuClaim
from sysfs.cpuset import CpuSet
from tests.fakes.grants import ledger_with, row
from tests.unit.policies.build import BURSTABLE, request
from tests.unit.policies.pods import POLICY, fill, owned


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


def test_a_claim_for_which_a_pod_no_longer_pays_is_taken_and_all_else_stays() -> None:
    claim = CpuClaim(CpuSet.parse("12-13"), "koordinator", by_pod=True)
    held = fill(
        request("o/c", 3000), *(request(f"p/{n}", 1000, BURSTABLE, claim=claim, pod_request_mcpu=2000) for n in "ab")
    )
    assert without_unpaid_claims(POLICY, held, "p", 2000)[0] == ()
    grants, why = without_unpaid_claims(POLICY, held, "p", 1500)
    assert owned(Allocations(grants)) == {"c": owned(held)["c"], "a": "", "b": ""}
    assert why.startswith("its pod requests 1500m now")
