import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from policies.base import Affinity, Allocations, CpuKind, Expression, Grant, Request
from policies.topology_aware.locality.affinity import (
    MAX_PULLS,
    affinity_reasons,
    affinity_scores,
    gain_of_others,
    implied,
    pulls,
)
from sysfs.cpuset import CpuSet
from tests.fakes.reference import reference_seconds
from tests.unit.policies.build import BEST_EFFORT, BURSTABLE, four_nodes, options, request, supply_of, tree_of, wish_for

TREE = tree_of(four_nodes())
WEB = request(
    "web/nginx", qos=BURSTABLE, namespace="shop", labels=(("tier", "front"), ("a.b/c", "d")), pod_labels=(("app", "w"),)
)


def scores(wanted: Request, *others: Grant, **keys: object) -> dict[str, float]:
    found = affinity_scores(supply_of(TREE, *others), options(four_nodes(), **keys), wanted, others)  # type: ignore[arg-type]  # options
    return {p.name: s for p, s in zip(TREE.pools, found, strict=True) if s}


def sits(name: str, pool: str, kind: CpuKind = CpuKind.SHARED, wanted: Request | None = None) -> Grant:
    return Grant(wanted or request(name), pool, kind)


def drawn(wanted: Request, *others: Request) -> float:
    """How much the others, which are in the root, draw it there."""
    return scores(wanted, *(sits("", "root", wanted=other) for other in others)).get("root", 0)


def test_weights_of_all_matches_are_summed_and_each_is_bounded() -> None:
    subject = request("p/a", affinities=(*wish_for("b", 5000), *wish_for("b", -3)))
    assert drawn(subject, request("p/b")) == 997


def test_without_a_scope_only_the_same_pod_counts_and_by_uid() -> None:
    subject = request("p/a", affinities=wish_for("b"))
    assert drawn(subject, request("p/b")) == 1
    assert drawn(subject, request("q/b")) == 0


def test_a_scope_opens_to_other_pods() -> None:
    scope = Expression("namespace", "Equals", ("shop",))
    subject = request("p/a", affinities=(Affinity(Expression("pod/labels/app", "In", ("w",)), 3, scope),))
    assert drawn(subject, WEB) == 3
    assert drawn(subject, request("q/b", pod_labels=(("app", "w"),))) == 0


def test_a_pull_weakens_by_a_quarter_per_link_and_a_pool_beside_is_as_near_as_the_one_above_both() -> None:
    found = scores(request("p/a", affinities=wish_for("b", 16)), sits("p/b", "NUMA node #1"))
    far = {"root": 9, "socket #1": 9, "NUMA node #2": 9, "NUMA node #3": 9}
    assert found == {"NUMA node #1": 16, "socket #0": 12, "NUMA node #0": 12, **far}


def test_a_push_weakens_likewise_and_does_not_reach_pools_beside() -> None:
    found = scores(request("p/a", affinities=wish_for("b", -16)), sits("p/b", "NUMA node #1"))
    assert found == {"NUMA node #1": -16, "socket #0": -12, "root": -9}


def test_pulls_to_several_pools_are_summed() -> None:
    there = (sits("p/b", "NUMA node #0"), sits("p/bb", "NUMA node #2"), sits("p/b", "socket #1"))
    wanted = request("p/a", affinities=(*wish_for("b", 16), *wish_for("bb", 16)))
    found = scores(wanted, *there)
    assert (found["NUMA node #0"], found["NUMA node #2"], found["root"]) == (16 + 9 + 12, 9 + 16 + 12, 9 + 9 + 12)


@pytest.mark.parametrize(("mine", "theirs"), [(16, 0), (0, 16), (16, -3)])
def test_what_others_gain_by_a_move_is_what_their_scores_do(mine: int, theirs: int) -> None:
    own = request("p/a", affinities=wish_for("b", mine) if mine else ())
    other = request("p/b", affinities=wish_for("a", theirs) if theirs else ())
    there = sits("p/b", "socket #0", wanted=other)
    before, after = sits("p/a", "NUMA node #3", wanted=own), sits("p/a", "NUMA node #0", wanted=own)
    scored = [scores(there.request, grant)["socket #0"] for grant in (before, after)]
    gain = gain_of_others(TREE, options(four_nodes()), (there,), before, after)
    assert (gain, gain > 0) == (scored[1] - scored[0], True)


def test_what_others_gain_by_a_move_counts_what_the_options_draw_together() -> None:
    there = sits("p/b", "NUMA node #0")
    before, after = (sits("p/a", f"NUMA node #{node}") for node in (3, 1))
    drawing = options(four_nodes(), colocate_pods=True)
    assert gain_of_others(TREE, drawing, (there,), before, after) > 0
    assert gain_of_others(TREE, options(four_nodes()), (there,), before, after) == 0


def test_a_debug_container_gains_by_a_move_of_its_pod_towards_it() -> None:
    there = sits("p/debug", "socket #0", wanted=request("p/debug", 0, BEST_EFFORT))
    before, after = (replace(sits("p/a", pool), shared_mcpu=500) for pool in ("NUMA node #3", "NUMA node #0"))
    scored = [scores(there.request, grant)["socket #0"] for grant in (before, after)]
    gain = gain_of_others(TREE, options(four_nodes()), (there,), before, after)
    assert (gain, gain > 0) == (scored[1] - scored[0], True)


def test_a_debug_container_with_an_affinity_gains_nothing_by_a_move_of_its_pod_towards_it() -> None:
    debug = request("p/debug", 0, BEST_EFFORT, affinities=wish_for("b"))
    there = (sits("p/debug", "socket #0", wanted=debug), sits("p/b", "NUMA node #3"))
    before, after = (replace(sits("p/a", pool), shared_mcpu=500) for pool in ("NUMA node #3", "NUMA node #0"))
    assert scores(debug, there[1], before) == scores(debug, there[1], after)
    assert gain_of_others(TREE, options(four_nodes()), there, before, after) == 0


@pytest.mark.parametrize("name", ["debug", "system"])
def test_an_affinity_to_itself_or_to_a_reserved_container_leaves_a_debug_container_drawn(name: str) -> None:
    debug = request("p/debug", 0, BEST_EFFORT, affinities=wish_for(name))
    there = (sits("p/debug", "socket #0", wanted=debug), sits("p/system", "root", CpuKind.RESERVED))
    before, after = (replace(sits("p/a", pool), shared_mcpu=500) for pool in ("NUMA node #3", "NUMA node #0"))
    moved = scores(debug, there[1], after)["socket #0"] - scores(debug, there[1], before)["socket #0"]
    assert gain_of_others(TREE, options(four_nodes()), there, before, after) == moved > 0
    assert [pool for pool, _, _ in pulled(debug, there[1], after)] == ["NUMA node #0"]


def test_an_option_that_draws_a_debug_container_takes_the_place_of_its_own_pull() -> None:
    debug = request("p/debug", 0, BEST_EFFORT)
    before, after = (replace(sits("p/a", pool), shared_mcpu=500) for pool in ("NUMA node #3", "NUMA node #0"))
    scored = [scores(debug, grant, colocate_pods=True)["socket #0"] for grant in (before, after)]
    there = (sits("p/debug", "socket #0", wanted=debug),)
    colocating = options(four_nodes(), colocate_pods=True)
    assert gain_of_others(TREE, colocating, there, before, after) == scored[1] - scored[0]


def test_affinities_that_cancel_each_other_out_leave_a_debug_container_without_a_pull() -> None:
    debug = request("p/debug", 0, BEST_EFFORT, affinities=wish_for("b", 5))
    there = replace(sits("p/b", "root", wanted=request("p/b", 500, affinities=wish_for("debug", -5))), shared_mcpu=500)
    assert (scores(debug, there), pulled(debug, there)) == ({}, [])


def test_a_pull_from_above_reaches_down() -> None:
    found = scores(request("p/a", affinities=wish_for("b", 4)), sits("p/b", "socket #0"))
    far = {"root": 3, "socket #1": 3, "NUMA node #2": 3, "NUMA node #3": 3}
    assert found == {"socket #0": 4, "NUMA node #0": 3, "NUMA node #1": 3, **far}


def test_the_wish_of_the_one_that_is_already_there_counts_too() -> None:
    first = request("p/b", affinities=wish_for("a", -2))
    assert scores(request("p/a"), sits("p/b", "NUMA node #1", wanted=first))["NUMA node #1"] == -2


def test_reserved_and_preserved_containers_pull_nowhere() -> None:
    wanted = request("p/a", affinities=wish_for("b"))
    assert scores(wanted, sits("p/b", "root", CpuKind.RESERVED)) == {}
    assert scores(wanted, sits("p/b", "", CpuKind.PRESERVE)) == {}


def test_colocation_pulls_pods_and_namespaces_together() -> None:
    there = sits("p/b", "NUMA node #1")
    assert scores(request("p/a"), there, colocate_pods=True)["NUMA node #1"] == 10
    assert scores(request("p/a"), there, colocate_pods=True, colocate_namespaces=True)["NUMA node #1"] == 20
    assert scores(request("q/a"), there, colocate_pods=True) == {}


def test_colocation_is_skipped_for_containers_with_affinities_of_their_own() -> None:
    wanted = request("p/a", affinities=wish_for("nobody"))
    assert scores(wanted, sits("p/b", "NUMA node #1"), colocate_pods=True) == {}


@pytest.mark.parametrize("option", ["colocate_pods", "colocate_namespaces"])
def test_what_an_option_implies_is_meant_for_those_near_and_for_nobody_else(option: str) -> None:
    chosen = options(four_nodes(), **{option: True})  # type: ignore[arg-type]  # an option that is a bool
    ((_, affinity),) = implied(chosen, request("p/a", namespace="shop"))
    subject = request("p/a", namespace="shop", affinities=(affinity,))
    assert drawn(subject, request("p/b", namespace="shop")) == 10
    assert drawn(subject, request("q/b", namespace="bank")) == 0


def test_options_imply_what_their_rows_say_where_a_container_says_nothing() -> None:
    both = options(four_nodes(), colocate_pods=True, colocate_namespaces=True)
    names = ["topologyAware.ColocatePods", "topologyAware.ColocateNamespaces"]
    assert [name for name, _ in implied(both, request("p/a"))] == names
    assert implied(options(four_nodes()), request("p/a")) == ()
    assert implied(both, request("p/a", affinities=wish_for("b"))) == ()


def pulled(wanted: Request, *others: Grant, **keys: object) -> list[tuple[str, int, str]]:
    found = pulls(TREE, options(four_nodes(), **keys), wanted, others)  # type: ignore[arg-type]  # options
    return [(pull.pool, pull.weight, pull.why) for pull in found]


def test_a_pull_says_where_to_how_much_and_by_whose_wish() -> None:
    there = sits("p/b", "NUMA node #1", wanted=request("p/b", affinities=wish_for("a", -2)))
    mine = "its affinity to name In b (+5)"
    theirs = "the other's anti-affinity to name In a (-2)"
    assert pulled(request("p/a", affinities=wish_for("b", 5)), there) == [("NUMA node #1", 3, f"{mine}; {theirs}")]


def test_a_pull_of_an_option_names_it_and_a_scope_is_told() -> None:
    there = sits("p/b", "socket #0")
    assert pulled(request("p/a"), there, colocate_pods=True) == [("socket #0", 10, "topologyAware.ColocatePods (+10)")]
    anywhere = Affinity(Expression("name", "Exists"), 1, Expression("namespace", "In", ("default",)))
    ((_, _, why),) = pulled(request("p/a", affinities=(anywhere,)), there)
    assert why == "its affinity to name Exists where namespace In default (+1)"


def test_who_is_on_the_reserved_cpus_is_not_said_to_pull() -> None:
    wanted = request("p/a", affinities=wish_for("b"))
    assert pulled(wanted, sits("p/b", "root", CpuKind.RESERVED)) == []
    assert len(pulled(wanted, sits("p/b", "root"))) == 1


def test_the_strongest_pulls_come_first_and_they_are_bounded() -> None:
    wanted = request("p/a", affinities=tuple(a for i in range(30) for a in wish_for(f"b{i}", (-1) ** i * (i + 1))))
    others = [sits(f"p/b{i}", "root") for i in range(30)]
    found = pulls(TREE, options(four_nodes()), wanted, others)
    assert [abs(pull.weight) for pull in found] == list(range(30, 30 - MAX_PULLS, -1))
    assert found[0].name.endswith("/b29")


def test_each_pull_is_explained_by_the_affinities_that_match_it_alone() -> None:
    wanted = request("p/a", affinities=(*wish_for("b", 7), *wish_for("c", -3), *wish_for("d", 2)))
    found = pulled(wanted, *(sits(f"p/{name}", "root") for name in "bcde"))
    assert [why for _, _, why in found] == [
        "its affinity to name In b (+7)",
        "its anti-affinity to name In c (-3)",
        "its affinity to name In d (+2)",
    ]


def test_a_weight_counts_for_each_of_several_that_match() -> None:
    subject = request("p/a", affinities=wish_for("b", 3))
    assert drawn(subject, request("p/b"), request("p/b"), request("p/c")) == 6


def test_of_many_reasons_for_one_pull_the_strongest_are_told() -> None:
    wanted = request("p/a", affinities=tuple(a for weight in range(1, 11) for a in wish_for("b", weight)))
    ((_, weight, why),) = pulled(wanted, sits("p/b", "root"))
    assert (weight, why.count("(+"), why.endswith("(+10); and 6 more")) == (55, 4, True)


def test_what_pulls_is_what_the_scores_are_made_of() -> None:
    wanted = request("p/a", affinities=(*wish_for("b", 7), *wish_for("c", -3)))
    others = (sits("p/b", "NUMA node #1"), sits("p/c", "NUMA node #3"), sits("q/b", "root"), sits("p/d", "root"))
    assert {pool: weight for pool, weight, _ in pulled(wanted, *others)} == {"NUMA node #1": 7, "NUMA node #3": -3}
    assert scores(wanted, *others)["NUMA node #1"] == 7


KEYS = ("pod/name", "name", "namespace", "pod/uid", "pod/labels/app", "id")
EVERYWHERE = Expression("name", "AlwaysTrue")
WORST = {  # what the bounds of cri_proxy/cri/annotations/affinity.py allow
    "a joint key": tuple(
        Affinity(Expression(":,-" + ",".join(KEYS), "NotIn", (f"x{i}",)), i + 1, EVERYWHERE) for i in range(64)
    ),
    "all keys in match and scope": tuple(
        Affinity(Expression(KEYS[i % 6], "NotIn", (f"x{i}",)), i + 1, Expression(KEYS[i % 5], "NotIn", ("x",)))
        for i in range(64)
    ),
    "globs": tuple(
        Affinity(Expression(KEYS[i % 6], "Matches", (f"*?[!{i}]-[0-9]*",)), 1, EVERYWHERE) for i in range(8)
    ),
}


@pytest.mark.parametrize("affinities", WORST.values(), ids=WORST)
@pytest.mark.parametrize(
    ("work", "of"), [(affinity_scores, supply_of(TREE)), (pulls, TREE)], ids=["affinity_scores", "pulls"]
)
def test_the_worst_affinities_cost_little_beside_many_containers(
    affinities: tuple[Affinity, ...], work: Callable[..., object], of: object
) -> None:
    """A tenth of what it is when each affinity is compared with one container after the other, or less."""
    labels = (("app", "shop"), ("tier", "front"))
    others = [sits("", "root", wanted=request(f"shop-frontend-{i:09}/web-{i}", pod_labels=labels)) for i in range(500)]
    wanted, chosen, spent = request("p/a", affinities=affinities), options(four_nodes()), []
    for _ in range(3):
        reference, start = reference_seconds(), time.thread_time()
        work(of, chosen, wanted, others)
        spent.append((time.thread_time() - start) / reference)
    assert min(spent) < 0.3, spent


DB = sits("p/db", "socket #1")


def texts(asked: Request, held: Grant = DB) -> list[str]:
    return [reason.text for reason in affinity_reasons(TREE, options(four_nodes()), Allocations((held,)), asked)]


def test_an_affinity_draws_to_where_the_other_is() -> None:
    (text,) = texts(request("p/app", affinities=wish_for("db", 3)))
    assert text.startswith("default/p/db draws it by 3 to socket #1: its affinity")


def test_an_anti_affinity_pushes_from_there() -> None:
    (text,) = texts(request("p/app", affinities=wish_for("db", -3)))
    assert text.startswith("default/p/db pushes it by 3 from socket #1: its anti-affinity")


def test_whoever_matches_nobody_has_no_company() -> None:
    assert texts(request("p/app", affinities=wish_for("cache", 3))) == []


def test_its_own_earlier_grant_draws_nobody() -> None:
    own = sits("p/app", "socket #1", wanted=request("p/app", affinities=wish_for("app", 3)))
    assert texts(own.request, own) == []


def owns(name: str, pool: str) -> Grant:
    return Grant(request(name, 2000), pool, CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("4-5"))


def test_a_container_added_without_resources_is_drawn_to_its_pod() -> None:
    there = owns("p/b", "NUMA node #1")
    found = scores(request("p/debugger"), there)
    assert (found["NUMA node #1"], found["socket #0"], found["root"]) == (10, 7.5, 5.625)
    ((pool, weight, why),) = pulled(request("p/debugger"), there)
    assert (pool, weight) == ("NUMA node #1", 10)
    assert why.startswith("added without resources to a pod with some")
    assert scores(request("q/debugger"), there) == {}
    assert scores(request("p/debugger"), sits("p/b", "NUMA node #1")) == {}


@pytest.mark.parametrize(
    "resources",
    [{"mcpu": 100}, {"cpu_limit_mcpu": 1000}, {"memory_request_bytes": 1 << 20}, {"memory_limit_bytes": 1 << 20}],
)
def test_a_container_with_resources_is_not_drawn_to_its_pod_by_itself(resources: dict[str, int]) -> None:
    wanted = request("p/sidecar", **resources)  # type: ignore[arg-type]  # fields by name
    assert scores(wanted, owns("p/b", "NUMA node #1")) == {}


def test_what_an_affinity_says_counts_before_what_a_container_without_resources_is_drawn_to() -> None:
    away = request("p/debugger", affinities=wish_for("b", -1))
    assert scores(away, owns("p/b", "NUMA node #1"))["NUMA node #1"] == -1
