import json
from itertools import islice, product

import pytest

from cri_proxy.codec import encode
from cri_proxy.config.model import Config
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.node.coordinator import Refusal, RefusalKind
from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.node.status.decision_views import Explanation
from cri_proxy.node.status.explain_node import MOST_IN_FULL, NOT_KNOWN, not_guaranteed_by
from cri_proxy.node.status.view import NodeView
from cri_proxy.state.rows import Row
from policies.base import Rejected, Request
from tests.fakes.site import Site, opened
from tests.unit.policies.build import BEST_EFFORT, BURSTABLE, request

MEBIBYTE, GIBIBYTE = 1 << 20, 1 << 30
NODE_BYTES = 64 * GIBIBYTE
WHOLE = ContainerSpec("app", cpu_request_mcpu=2000, cpu_limit_mcpu=2000, memory_limit_bytes=64 * MEBIBYTE)
LOG = ContainerSpec("log", cpu_request_mcpu=10)


def explained(site: Site, words: str) -> Explanation:
    (found,) = NodeView(site.node, name="worker-1").explain(words).decisions
    return found


async def refused(site: Site, name: str, mcpu: int) -> None:
    with pytest.raises(CallFailed):
        await site.run(name, guaranteed("c", mcpu))


async def test_the_sibling_without_limits_is_named(site: Site) -> None:
    await site.run("web", WHOLE, LOG)
    found = explained(site, "web/app")
    assert [condition.code for condition in found.not_exclusive] == ["qos"]
    assert found.not_guaranteed_by == ("log has no CPU limit and no memory limit",)


async def test_a_sibling_that_is_not_created_yet_is_not_known(site: Site) -> None:
    spec = PodSpec("web", (WHOLE, LOG))
    await site.kubelet.create(spec, WHOLE, await site.kubelet.run_sandbox(spec))
    assert explained(site, "web/app").not_guaranteed_by == (NOT_KNOWN,)


async def test_one_with_cpus_of_its_own_lacks_nothing(site: Site) -> None:
    await site.run("a", guaranteed("c", 2000))
    found = explained(site, "a")
    assert (found.not_exclusive, found.not_guaranteed_by, found.wanted_pool, found.holders) == ((), (), "", ())


async def test_a_refused_one_is_told_who_has_the_cpus_and_what_would_help(site: Site) -> None:
    await site.run("large", guaranteed("c", 4000))
    await site.run("small", guaranteed("c", 1000))
    await refused(site, "new", 6000)
    found = explained(site, "new")
    assert found.wanted_pool == "root"
    assert [(holder.pod, len(holder.cpus)) for holder in found.holders] == [("large", 4), ("small", 1)]
    assert found.helps == (
        "with a request of 2 CPUs it would be placed in socket #0",
        "without default/large/c (CPUs 4-7) it would be placed in root",
    )


async def test_one_whose_annotation_cannot_be_read_is_told_which() -> None:
    async with opened(Site(rules=Config(strict_annotations=True))) as site:
        with pytest.raises(CallFailed):
            await site.run("new", guaranteed("c", 1000), **{"cpu.preserve.cri-proxy.io": "perhaps"})
        (help_,) = explained(site, "new").helps
        assert help_.startswith("without the annotation that cannot be read it would be placed in socket #")
        assert "perhaps" in help_


@pytest.mark.parametrize("kind", ["cdi", "store"])
async def test_a_refusal_that_was_not_the_policys_has_no_other_place_as_a_remedy(site: Site, kind: RefusalKind) -> None:
    site.node.refuse(request("new/c", 1000), Refusal(kind, "device x is not known"))
    assert explained(site, "new").helps == ()


async def test_a_container_is_not_told_of_an_option_that_is_in_force() -> None:
    for admitted in (False, True):
        async with opened(Site(rules=Config(on_shortage="admit" if admitted else "refuse"))) as site:
            await site.run("a", ContainerSpec("c", cpu_request_mcpu=6500))
            asked = request("new/c", 1500, BURSTABLE)
            rejected = site.policy.decide(site.node.context.ledger.allocations, asked)
            assert isinstance(rejected, Rejected)
            site.node.coordinator.report(asked, rejected)
            told = any("onShortage" in text for text in explained(site, "new").helps)
            assert told is not admitted


async def test_one_that_is_let_in_already_is_not_told_of_the_option() -> None:
    async with opened(Site(rules=Config(on_shortage="admit"))) as site:
        await site.run("a", ContainerSpec("c", cpu_request_mcpu=6500))
        await site.run("b", ContainerSpec("c", cpu_request_mcpu=1500))
        found = explained(site, "b")
        assert found.container is not None
        assert found.container.is_overcommitted
        assert found.helps
        assert not any("onShortage" in text for text in found.helps)


async def test_one_that_is_in_a_wider_pool_is_told_who_is_in_the_better_one(site: Site) -> None:
    await site.run("near", guaranteed("c", 3000))
    await site.run("far", guaranteed("c", 2000))
    await site.run("wide", guaranteed("c", 2000))
    found = explained(site, "wide")
    assert found.wanted_pool == "socket #0"
    assert [(holder.pod, str(holder.cpus)) for holder in found.holders] == [("far", "1-2")]


async def test_who_took_the_cpus_that_it_could_use_is_named(site: Site) -> None:
    await site.run("share", ContainerSpec("c", cpu_request_mcpu=100))
    await site.run("a", guaranteed("c", 4000))
    await site.run("b", guaranteed("c", 2000))
    lost = [text for text in explained(site, "share").differences if "owned by" in text]
    assert lost == ["CPUs 4-7: owned by default/a/c now"]


async def test_a_workload_means_all_of_its_pods(site: Site) -> None:
    for end in ("x2x7k", "zz9pl"):
        await site.run(f"web-5d4f9c7b8-{end}", ContainerSpec("c", cpu_request_mcpu=100))
    view = NodeView(site.node, name="worker-1").explain("web")
    assert [each.decision.request.pod.name for each in view.decisions] == ["web-5d4f9c7b8-x2x7k", "web-5d4f9c7b8-zz9pl"]
    assert view.read_as == ("Deployment default/web",)
    assert {(each.workload_kind, each.workload) for each in view.decisions} == {("Deployment", "web")}


def whole(name: str = "p/app", **changed: object) -> Request:
    figures = {"cpu_limit_mcpu": 2000, "memory_request_bytes": GIBIBYTE, "memory_limit_bytes": GIBIBYTE}
    return request(name, 2000, BURSTABLE, **{**figures, **changed})


def test_a_sidecar_without_limits_is_named() -> None:
    log = request("p/log", 10, BURSTABLE)
    assert not_guaranteed_by([whole(), log], NODE_BYTES) == ("log has no CPU limit and no memory limit",)


def test_a_request_below_its_limit_is_named() -> None:
    assert not_guaranteed_by([whole(cpu_limit_mcpu=4000)], NODE_BYTES) == (
        "app has a CPU request of 2000m and a limit of 4000m",
    )
    assert not_guaranteed_by([whole(memory_limit_bytes=4 * GIBIBYTE)], NODE_BYTES) == (
        "app has a memory request below its limit of 4Gi",
    )


def test_an_estimate_is_not_held_against_a_container() -> None:
    near = whole(memory_request_bytes=GIBIBYTE - NODE_BYTES // 1000)
    assert not_guaranteed_by([near], NODE_BYTES) == (NOT_KNOWN,)
    assert not_guaranteed_by([whole(memory_request_bytes=0)], 0) == (NOT_KNOWN,)


def test_nothing_is_said_of_shares_that_are_rounded() -> None:
    assert not_guaranteed_by([whole(cpu_limit_mcpu=2001)], NODE_BYTES) == (NOT_KNOWN,)


def test_a_best_effort_pod_has_nothing() -> None:
    assert not_guaranteed_by([request("p/app", 0, BEST_EFFORT)], 0) == ("app has neither requests nor limits",)


REPLICA = ContainerSpec("c", cpu_request_mcpu=10)


async def run_replicas(site: Site, count: int, start: int = 0) -> None:
    """Run so many pods of the Deployment ``web``, whose names sort before ``web-5d4f9c7b8-zz9pl``."""
    for first, second in islice(product("bcdfgh", repeat=2), start, start + count):
        await site.run(f"web-5d4f9c7b8-x2x{first}{second}", REPLICA)


async def test_of_many_pods_the_answer_is_brief(site: Site) -> None:
    await run_replicas(site, MOST_IN_FULL)
    view = NodeView(site.node, name="worker-1")
    full = view.explain("web").decisions
    assert len(full) == MOST_IN_FULL
    assert all(each.decision.ranking and each.decision.reasons for each in full)
    await site.run("web-5d4f9c7b8-zz9pl", REPLICA)
    brief = view.explain("web").decisions
    assert [(each.container, each.not_exclusive) for each in brief[:-1]] == [
        (each.container, each.not_exclusive) for each in full
    ]
    assert not any(each.decision.ranking or each.decision.history or each.holders for each in brief)
    assert max(len(json.dumps(encode(each))) for each in brief) < 4096


async def test_a_step_explains_one_container(site: Site) -> None:
    await run_replicas(site, 10)
    assert len(list(NodeView(site.node, name="worker-1").explain_steps("web"))) >= 2 * 10


async def test_the_ledger_is_looked_through_once_for_all_containers(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    active, looked, counts = Ledger.active, list[Ledger](), list[int]()

    def counted(self: Ledger) -> tuple[Row, ...]:
        looked.append(self)
        return active(self)

    monkeypatch.setattr(Ledger, "active", counted)
    for start, more in ((0, 2), (2, 8)):
        await run_replicas(site, more, start)
        looked.clear()
        assert len(NodeView(site.node, name="worker-1").explain("web").decisions) == start + more
        counts.append(len(looked))
    assert counts[0] == counts[1] > 0


async def test_what_would_bring_own_cpus_onto_one_node_is_told_while_they_are_on_several(site: Site) -> None:
    """Of 7 CPUs on two nodes two containers take all but one on each."""
    first = await site.run("a", guaranteed("c", 3000))
    await site.run("b", guaranteed("c", 2000))
    await site.run("wide", guaranteed("c", 2000))
    view = NodeView(site.node, name="worker-1")
    (wide,) = view.explain("wide").decisions
    assert wide.container is not None
    assert "cpus-wider" in wide.container.unmet
    assert any(text.startswith("without default/") for text in wide.helps)
    await site.kubelet.remove_pod(first.sandbox_id)
    (wide,) = view.explain("wide").decisions
    assert [text[:39] for text in wide.helps] == ["created again now, its own CPUs would b"]
    (b,) = view.explain("b").decisions
    assert b.helps == ()
