import pytest

from policies.base import CpuKind, Grant, Previous
from policies.preferences import Threads
from policies.topology_aware import reasons
from policies.topology_aware.supply.demand import Demand, Isolation
from sysfs.cpuset import CpuSet
from tests.unit.policies.build import before, request

TWO = Demand(CpuKind.SHARED, whole=2, shared_mcpu=500)


@pytest.mark.parametrize(
    ("demand", "text"),
    [
        (TWO, "2 exclusive CPUs and 500m shared"),
        (Demand(CpuKind.SHARED, whole=1), "1 exclusive CPU"),
        (Demand(CpuKind.SHARED, whole=1, isolation=Isolation.REQUIRE), "1 isolated CPU"),
        (Demand(CpuKind.SHARED, shared_mcpu=300), "300m shared"),
        (Demand(CpuKind.SHARED), "a CPU to share"),
        (Demand(CpuKind.SHARED, whole=4, rounded_up=1), "3 exclusive CPUs (4 as whole cores)"),
    ],
)
def test_what_is_wanted_is_said_in_words(demand: Demand, text: str) -> None:
    assert reasons.wanted_text(demand) == text


def test_a_choice_names_the_next_pool_and_why_it_lost() -> None:
    text = reasons.pool_chosen("NUMA node #1", "500m shared", "socket #0", "is larger").text
    assert text == "NUMA node #1 gives 500m shared; next would be socket #0, which is larger"
    assert reasons.pool_chosen("root", "500m shared", "", "").text == "root gives 500m shared"


def test_what_is_given_tells_isolated_cpus_from_ordinary_ones() -> None:
    assert reasons.given_text(1, 2, 300) == "1 exclusive CPU and 2 isolated CPUs and 300m shared"


@pytest.mark.parametrize(
    ("cpus", "start"),
    [
        ("0", "runs on the reserved CPU 0:"),
        ("0-1", "runs on the reserved CPUs 0-1:"),
        ("", "runs on the shared set of"),
    ],
)
def test_a_system_container_is_told_where_it_runs(cpus: str, start: str) -> None:
    assert reasons.reserved(CpuSet.parse(cpus), by_annotation=False).text.startswith(start)


@pytest.mark.parametrize(
    ("by_annotation", "why"), [(True, "asked for by annotation"), (False, "its namespace is reserved")]
)
def test_a_system_container_is_told_why_it_is_one(by_annotation: bool, why: str) -> None:
    assert reasons.reserved(CpuSet.parse("0"), by_annotation=by_annotation).text.endswith(f": {why}")


def test_a_refusal_says_what_was_wanted_what_is_free_and_where() -> None:
    text = reasons.cpu_full(TWO, 2400, 2, "socket #0", 1400).text
    assert text == (
        "wanted 2 exclusive CPUs and 500m shared; free in root: 2400m shared capacity, 2 CPUs to own; "
        "most in socket #0: 1400m"
    )


def test_a_refusal_counts_in_good_english_and_leaves_out_where_nothing_is_free() -> None:
    text = reasons.cpu_full(TWO, 900, 1, "NUMA node #0", 0).text
    assert text.endswith("free in root: 900m shared capacity, 1 CPU to own")
    assert reasons.cpu_full(TWO, 900, 1, "root", 900).text.endswith("1 CPU to own")
    assert reasons.cpu_full(TWO, -100, 0, "NUMA node #0", 1).text.endswith(
        "free in root: 0m shared capacity, 0 CPUs to own; most in NUMA node #0: 1m"
    )
    assert reasons.too_small(900, 1) == "too small: 900m free, of which 1 CPU can be owned"


@pytest.mark.parametrize(
    ("pool", "wanted", "exist", "text"),
    [
        ("root", 1, False, "this node has no kernel-isolated CPUs for containers: an ordinary CPU is taken instead"),
        ("root", 2, False, "this node has no kernel-isolated CPUs for containers: ordinary CPUs are taken instead"),
        ("root", 1, True, "root has no isolated CPU free: an ordinary CPU is taken instead"),
        ("root", 2, True, "root has fewer than 2 isolated CPUs free: ordinary CPUs are taken instead"),
    ],
)
def test_what_was_taken_instead_of_isolated_cpus_is_said(pool: str, wanted: int, exist: bool, text: str) -> None:
    assert reasons.isolated_short(pool, wanted, exist=exist).text == text


def test_a_strict_refusal_says_whether_there_are_isolated_cpus_at_all() -> None:
    strict = Demand(CpuKind.SHARED, whole=1, isolation=Isolation.REQUIRE)
    found = [reasons.isolated_missing(strict, 0, exist=exist).text for exist in (True, False)]
    assert found == [
        "wanted 1 isolated CPU; free isolated CPUs in root: 0",
        "wanted 1 isolated CPU; this node has no such CPUs for containers",
    ]


@pytest.mark.parametrize(
    ("previous", "kept", "holds", "text"),
    [
        (before("root", "1"), "1", False, "its earlier CPU 1 was free and is kept"),
        (before("root", "1-2"), "1-2", False, "its earlier CPUs 1-2 were free and are kept"),
        (before("root", "1"), "1", True, "its CPU 1 is kept"),
        (before("root", "1-2"), "1-2", True, "its CPUs 1-2 are kept"),
        (before("root", "1-3"), "1", True, "of its CPUs 1-3, CPU 1 is kept"),
        (before("root", "1-3", "3"), "1-2", True, "of its CPUs 1-3, CPUs 1-2 are kept, those that it had first"),
    ],
)
def test_what_is_kept_is_told_otherwise_to_one_that_still_holds_it(
    previous: Previous, kept: str, holds: bool, text: str
) -> None:
    assert reasons.previous_kept(CpuSet.parse(kept), previous, holds=holds).text == text


@pytest.mark.parametrize(
    ("owned", "holds", "text"),
    [
        ("1", False, "its earlier CPU 1 could not be had again: placed again"),
        ("", False, "its earlier pool root could not be had again: placed again"),
        ("1-2", True, "its CPUs 1-2 cannot be kept: placed again"),
        ("", True, "its pool root cannot be kept: placed again"),
    ],
)
def test_what_is_lost_is_told_otherwise_to_one_that_still_holds_it(owned: str, holds: bool, text: str) -> None:
    assert reasons.previous_lost(before("root", owned), holds=holds).text == text


def test_lifted_containers_are_named() -> None:
    text = reasons.lifted((Grant(request("web/nginx"), "root", CpuKind.SHARED),)).text
    assert text == "1 container moved to a wider pool to make room: web/nginx to root"


def test_what_is_displaced_is_counted() -> None:
    assert reasons.displaced(CpuSet.parse("4-5"), 3).text == "CPUs 4-5 are no longer shared: 3 other containers changed"
    assert reasons.displaced(CpuSet.parse("4"), 1).text == "CPU 4 is no longer shared: 1 other container changed"
    assert reasons.displaced(CpuSet(), 1).text == "1 other container changed"


@pytest.mark.parametrize(
    ("demand", "devices", "text"),
    [
        (Demand(CpuKind.SHARED, whole=2), 1, "wanted 2 exclusive CPUs near its devices and nowhere else; near"),
        (Demand(CpuKind.SHARED, whole=2), 2, "nowhere else, at least one near each; near"),
        (TWO, 2, "nowhere else; near"),
    ],
)
def test_owned_cpus_alone_are_wanted_near_each_of_several_devices(demand: Demand, devices: int, text: str) -> None:
    near = tuple((f"/dev/{n}", "NUMA node #0", 1) for n in range(devices))
    assert text in reasons.strict_locality_unmet(demand, near, "", -1).text


@pytest.mark.parametrize(
    ("demand", "is_said"),
    [
        (Demand(CpuKind.SHARED, whole=2), False),
        (Demand(CpuKind.SHARED, shared_mcpu=500), True),
        (Demand(CpuKind.SHARED), True),
        (TWO, True),
    ],
)
def test_the_best_pool_near_all_devices_matters_to_containers_that_share(demand: Demand, is_said: bool) -> None:
    text = reasons.strict_locality_unmet(demand, (("/dev/0", "NUMA node #0", 1),), "NUMA node #0", 250).text
    assert text.endswith("; most shared capacity near all of them in NUMA node #0: 250m") is is_said


def test_a_refusal_for_want_of_whole_cores_names_what_was_asked_for_and_what_was_free() -> None:
    odd = Demand(CpuKind.SHARED, whole=4, rounded_up=1, threads=Threads.OWN_CORE)
    assert reasons.cores_missing(odd, 2, "socket #1", 2).text == (
        "wanted 3 exclusive CPUs on whole cores and no others, which makes 4; CPUs free on whole cores in root: 2, "
        "most in socket #1: 2"
    )
    shares = Demand(CpuKind.SHARED, shared_mcpu=3000, hides=True)
    assert reasons.cores_missing(shares, 2, "root", 2).text == (
        "wanted 3000m shared on one thread of each core; cores to share in root: 2"
    )


def test_two_containers_share_fewer_cores_than_they_ask_for() -> None:
    short = tuple(Grant(request(f"{pod}/c", 2000), "root", CpuKind.SHARED, shared_mcpu=2000) for pod in "ab")
    assert reasons.others_too_few_cores(short).text == (
        "2 containers on one thread of each core now share fewer cores than they ask for: a/c (2000m), b/c (2000m)"
    )


def test_one_that_moves_back_to_the_reserved_cpus_is_said_to_go_there() -> None:
    grants = (
        Grant(request("a/c"), "root", CpuKind.RESERVED),
        Grant(request("b/c"), "root", CpuKind.SHARED),
    )
    assert reasons.rebalanced(grants).text.endswith(": a/c to the reserved CPUs, b/c to root")
