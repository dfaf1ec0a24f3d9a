"""The sentences of ``explain`` and of refusals about topology hints."""

from policies.alignment import TopologyOptions, TopologyPolicy
from policies.hints.model import Hint, Hints, Unlisted
from policies.topology_aware.alignment.offers import ResourceHints
from policies.topology_aware.alignment.reasons import hints_reason, refused, unmerged
from tests.unit.policies.build import request

ORIGINS = (("cpu_request_mcpu", "cpu_quota"),)
ASKED = request("a/c", 2000, origins=ORIGINS)


def offer(hints: Hints) -> ResourceHints:
    return ResourceHints("cpu", hints, "2 CPUs to own", "4 on node 0", "cpu_request_mcpu")


def said(hints: Hints) -> str:
    return hints_reason(ASKED, offer(hints)).text


def test_a_resource_is_named_with_the_origin_of_its_amount_and_where_it_fits() -> None:
    assert said((Hint(1, preferred=True), Hint(3, preferred=False))) == (
        "cpu: 2 CPUs to own (cpu_quota), fits on NUMA node 0; free 4 on node 0"
    )
    assert "fits on NUMA nodes 0 and 1, more nodes than it would need alone" in said((Hint(3, preferred=False),))
    assert "fits on no set of nodes" in said(())
    assert "fits on any node" in said(None)
    assert "preferably 2 of them" in said(Unlisted((), 2, 0b111))


def test_long_lists_are_cut() -> None:
    assert said(tuple(Hint(1 << n, preferred=True) for n in range(6))).count("NUMA node") == 4


def test_a_refusal_names_what_lacks_and_otherwise_everything() -> None:
    rules = TopologyOptions(TopologyPolicy.RESTRICTED)
    devices = ResourceHints("/dev/x", (Hint(2, preferred=True),), "1 device", "/dev/x0 on NUMA node 1", "hints")
    text = refused(ASKED, rules, (offer((Hint(1, preferred=True),)), devices)).text
    assert text.endswith("cpu: wanted 2 CPUs to own, free 4 on node 0; /dev/x: /dev/x0 on NUMA node 1")
    assert "/dev/x" not in refused(ASKED, rules, (offer(()), devices)).text


def test_that_there_is_nothing_to_merge_is_said() -> None:
    text = unmerged(ASKED, TopologyOptions(TopologyPolicy.RESTRICTED)).text
    assert text == "topology policy restricted (topologyManager.policy): no resource that it asks for has hints"
