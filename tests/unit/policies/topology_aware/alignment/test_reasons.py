"""The sentences of ``explain`` and of refusals about topology hints."""

from policies.alignment import Alignment, TopologyOptions, TopologyPolicy
from policies.hints import Hint, HintOrigin, Hints, Merged
from policies.topology_aware.alignment.offers import ResourceHints
from policies.topology_aware.alignment.reasons import hints_reason, merged_reason, refused, unmerged
from sysfs.cpuset import NodeSet
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


def test_long_lists_are_cut() -> None:
    many = tuple(Hint(1 << n, preferred=True) for n in range(6))
    assert "fits on NUMA node 0 or NUMA node 1 or NUMA node 2 or NUMA node 3 or 2 more sets; free" in said(many)
    assert "more sets" not in said(many[:4])


def test_a_refusal_names_what_lacks_and_otherwise_everything() -> None:
    rules = TopologyOptions(TopologyPolicy.RESTRICTED)
    devices = ResourceHints("/dev/x", (Hint(2, preferred=True),), "1 device", "/dev/x0 on NUMA node 1", "localities")
    text = refused(ASKED, rules, (offer((Hint(1, preferred=True),)), devices)).text
    assert text.endswith("cpu: wanted 2 CPUs to own, free 4 on node 0; /dev/x: /dev/x0 on NUMA node 1")
    assert "/dev/x" not in refused(ASKED, rules, (offer(()), devices)).text


def test_that_there_is_nothing_to_merge_is_said() -> None:
    text = unmerged(ASKED, TopologyOptions(TopologyPolicy.RESTRICTED)).text
    assert text == "topology policy restricted (topologyManager.policy): no resource that it asks for has hints"


def result(*, affinity: int, preferred: bool, **hints: Hint) -> str:
    """What is said of a merge that rests on these hints, behind the policy."""
    rests_on = tuple(HintOrigin(i, name, hint) for i, (name, hint) in enumerate(hints.items()))
    merged = Merged(affinity, preferred, admit=True, rests_on=rests_on)
    alignment = Alignment(NodeSet(affinity), NodeSet(affinity))
    text = merged_reason(ASKED, TopologyOptions(TopologyPolicy.BEST_EFFORT), merged, alignment).text
    return text.removeprefix("topology policy best-effort (topologyManager.policy): ")


def test_a_result_that_all_prefer_names_who_prefers_it_and_who_does_not_care() -> None:
    here, anywhere = Hint(1, preferred=True), Hint(None, preferred=True)
    assert result(affinity=1, preferred=True, cpu=here, memory=here) == "NUMA node 0, preferred by all: cpu, memory"
    assert result(affinity=1, preferred=True, cpu=here, gpu=anywhere, nic=anywhere) == (
        "NUMA node 0, preferred by all: cpu, any node suits gpu and nic"
    )


def test_a_result_that_not_all_prefer_names_the_hint_of_each_resource() -> None:
    wide, narrow, none = Hint(0b11, preferred=False), Hint(0b01, preferred=True), Hint(None, preferred=False)
    assert result(affinity=1, preferred=False, cpu=wide, gpu=narrow, memory=none) == (
        "NUMA node 0, not preferred by all: cpu on NUMA nodes 0 and 1, not preferred; gpu on NUMA node 0, preferred; "
        "memory fits nowhere"
    )
    assert result(affinity=3, preferred=False) == (
        "NUMA nodes 0 and 1, not preferred by all: no hints of all resources have a node in common"
    )
