from dataclasses import replace

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.node.status.decision_views import Explanation
from cri_proxy.node.status.model import ContainerView
from cri_proxy.state.decisions import DecisionRecord, Outcome
from policies.base import ContainerKey, Pod, QosClass, Reason, Request
from policies.topology_aware import ReasonCode
from sysfs.cpuset import CpuSet, NodeSet
from tests.testbed.kernel import Allowed
from tests.tryout.report import Observation, asked, chosen, describe_all, describe_observation, why

ENGINE = guaranteed("engine", 1000)
POD = PodSpec("database", (ENGINE,), uid="U")
HELD = ContainerView(
    namespace="default",
    pod="database",
    name="engine",
    pod_uid="U",
    container_id="C",
    qos="Guaranteed",
    state="running",
    kind="exclusive",
    pool="NUMA node #1",
    cpus=CpuSet.parse("4"),
    mems=NodeSet.parse("1"),
    exclusive=CpuSet.parse("4"),
)
REQUEST = Request(ContainerKey("U", "engine"), Pod("U", "database", "default", QosClass.GUARANTEED), 1000)
RECORD = DecisionRecord(REQUEST, Outcome.PLACED, None, reasons=(Reason("fits", "tightest fit"),))
DECISION = Explanation(RECORD, HELD)
SEEN = Observation(POD, ENGINE, "a CPU of its own", DECISION, Allowed(CpuSet.parse("4"), NodeSet.parse("1")))


def test_what_is_chosen_is_confirmed_when_the_kernel_says_the_same() -> None:
    assert SEEN.is_confirmed


def test_other_cpus_or_nodes_are_no_confirmation() -> None:
    assert not replace(SEEN, allowed=Allowed(CpuSet.parse("4-5"), NodeSet.parse("1"))).is_confirmed
    assert not replace(SEEN, allowed=Allowed(CpuSet.parse("4"), NodeSet.parse("0-1"))).is_confirmed


def test_what_does_not_run_or_is_not_known_is_not_confirmed() -> None:
    assert not replace(SEEN, allowed=None).is_confirmed
    assert not replace(SEEN, decision=None).is_confirmed


def test_what_is_not_ours_to_write_needs_no_confirmation() -> None:
    free = replace(DECISION, container=replace(HELD, mems=None))
    assert replace(SEEN, decision=free, allowed=Allowed(CpuSet.parse("4"), NodeSet.parse("0-1"))).is_confirmed


def test_a_container_is_told_in_four_lines_under_its_name() -> None:
    assert describe_observation(SEEN, confirmed_by="kernel") == [
        "default/database/engine  a CPU of its own",
        "  asked   Guaranteed: CPU 1, memory 32Mi",
        "  chosen  CPU 4 (its own), memory node 1, in NUMA node #1",
        "  why     tightest fit",
        "  kernel  Cpus_allowed_list 4  Mems_allowed_list 1  ✓",
    ]


def test_what_a_container_reads_of_its_own_cpus_is_a_line_more() -> None:
    lines = describe_observation(replace(SEEN, reads=CpuSet.parse("4")), confirmed_by="kernel")
    assert lines[-1] == "  inside  /.cri-proxy/resources.json lists CPU 4 of its own"


def test_a_container_that_is_told_other_cpus_is_not_confirmed() -> None:
    assert replace(SEEN, reads=CpuSet.parse("4")).is_confirmed
    assert not replace(SEEN, reads=CpuSet.parse("5")).is_confirmed


def test_the_last_line_counts_what_is_confirmed() -> None:
    text = describe_all([SEEN, replace(SEEN, allowed=None)], confirmed_by="kernel")
    assert text.splitlines()[-1] == "1 of 2 containers are where the daemon put them, confirmed by the kernel."


def test_annotations_are_part_of_what_was_asked_but_our_label_is_not() -> None:
    pod = PodSpec("p", (ContainerSpec("c"),), annotations=(("cri-proxy.io/affinity", "b: [a]"),))
    assert asked(pod, pod.containers[0]) == "BestEffort: nothing named; affinity: b: [a]"


def test_a_mixed_grant_names_its_own_and_the_shared_cpus() -> None:
    held = replace(HELD, cpus=CpuSet.parse("4-7"), isolated=CpuSet.parse("7"))
    assert chosen(replace(DECISION, container=held)) == (
        "CPU 7 (isolated by the kernel, its own) and CPU 4 (its own) and CPUs 5-6 (shared), "
        "memory node 1, in NUMA node #1"
    )


def test_a_refusal_is_told_as_one_with_its_reason() -> None:
    refused = Explanation(replace(RECORD, outcome=Outcome.REFUSED, reasons=(Reason("full", "no CPU is free"),)))
    assert (chosen(refused), why(refused)) == ("refused", "no CPU is free")


def test_the_reason_for_the_pool_comes_before_others() -> None:
    reasons = (Reason("widened", "others move"), Reason(ReasonCode.POOL, "root has it"))
    assert why(Explanation(replace(RECORD, reasons=reasons))) == "root has it"


def test_colours_are_there_only_when_they_are_on() -> None:
    assert "\x1b" not in describe_all([SEEN], confirmed_by="kernel")
    assert "\x1b[32m✓\x1b[0m" in describe_all([SEEN], confirmed_by="kernel", colours=True)
