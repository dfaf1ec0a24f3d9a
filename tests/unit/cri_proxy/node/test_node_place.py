import asyncio

import pytest

from cri_proxy import events
from cri_proxy.config.model import Config
from cri_proxy.cri_client.pods import PodSpec, guaranteed
from cri_proxy.errors import CallFailed, StoreError
from cri_proxy.node.coordinator import Refusal
from cri_proxy.state.rows import Row
from policies.base import ContainerKey
from tests.fakes.grants import request
from tests.fakes.site import Site, opened
from tests.unit.cri_proxy.node.stage import REJECT, background, owned, soon

OWNS_2 = guaranteed("c", 2000)
OWNS_3 = guaranteed("c", 3000)
DISK = StoreError("state.db", "disk full")


def rows(site: Site) -> list[Row]:
    return list(site.node.context.ledger.rows())


async def test_a_fault_between_the_decision_and_its_save_frees_the_place(site: Site) -> None:
    def fail(event: str, **fields: object) -> None:
        if event == events.ANNOTATION_IGNORED:
            raise OSError("the log is gone")

    site.log.warning = fail  # type: ignore[method-assign]
    with pytest.raises(OSError, match="the log is gone"):
        await site.node.place(request("a", 2000), "sandbox-1", problems=("not understood",))
    assert rows(site) == []


async def test_a_caller_that_goes_away_while_its_place_is_saved_gives_it_back(site: Site) -> None:
    saving = asyncio.Event()

    async def hang(*_: object) -> None:
        saving.set()
        await asyncio.Event().wait()

    site.store.save = hang  # type: ignore[method-assign,assignment]
    placing = background(site.node.place(request("a", 2000), "sandbox-1"))
    await saving.wait()
    assert len(rows(site)) == 1
    placing.cancel()
    await asyncio.wait([placing])
    assert rows(site) == []
    await site.node.context.tasks.cancel()


async def test_a_store_that_fails_is_shown_and_the_container_runs(site: Site) -> None:
    site.store.failure = DISK
    a = await site.run("a", OWNS_2)
    assert site.cpus(a.container_id("c")) == str(owned(site, a.container_id("c")))
    assert "disk full" in site.node.context.persistence.problem


async def test_a_store_that_fails_refuses_the_container_where_the_operator_says_so() -> None:
    async with opened(Site(rules=REJECT)) as site:
        site.store.failure = DISK
        with pytest.raises(CallFailed, match=r"cannot be saved: state.db: disk full") as refused:
            await site.run("a", OWNS_2)
        assert (refused.value.code, rows(site), site.live()) == (14, [], [])


async def test_an_annotation_that_is_not_understood_refuses_the_container_under_strict_annotations() -> None:
    async with opened(Site(rules=Config(strict_annotations=True))) as site:
        spec = PodSpec("a", (OWNS_2,), annotations=(("cri-proxy.io/prefer-isolated-cpus", "perhaps"),))
        with pytest.raises(CallFailed, match="prefer-isolated-cpus") as refused:
            await site.kubelet.run_pod(spec)
        assert refused.value.code == 3
        record = site.journal.records.get(ContainerKey(spec.pod_uid, "c"))
        assert record is not None
        assert "prefer-isolated-cpus" in record.reasons[0].text


async def test_the_exit_of_an_init_container_is_noticed_before_the_next_create() -> None:
    """The runtime has no events, and the kubelet tells nobody."""
    async with opened(Site(modern=False)) as site:
        await site.run("full", guaranteed("c", 4000))
        spec = PodSpec("a", (guaranteed("init", 3000), guaranteed("main", 3000)))
        sandbox = await site.kubelet.run_sandbox(spec)
        init = await site.kubelet.create(spec, spec.containers[0], sandbox)
        await site.kubelet.start(init)
        site.runtime.exit(init)
        main = await site.kubelet.create(spec, spec.containers[1], sandbox)
        assert str(owned(site, main)) == "1-3"


async def test_before_a_refusal_the_whole_node_is_looked_at() -> None:
    async with opened(Site(modern=False)) as site:
        await site.run("full", guaranteed("c", 4000))
        gone = await site.run("gone", OWNS_3)
        site.runtime.exit(gone.container_id("c"))
        a = await site.run("a", OWNS_3)
        assert str(owned(site, a.container_id("c"))) == "1-3"


async def test_a_container_that_does_not_fit_is_refused_in_one_sentence(site: Site) -> None:
    with pytest.raises(CallFailed, match=r"cri-proxy: wanted 9 exclusive CPUs; free in root") as refused:
        await site.run("a", guaranteed("c", 9000))
    assert (refused.value.code, rows(site)) == (8, [])


async def test_a_refusal_names_its_kind(site: Site) -> None:
    refusal = await site.node.place(request("a", 9000), "sandbox-1")
    assert isinstance(refusal, Refusal)
    assert refusal.kind == "full"
    await soon(lambda: True)
