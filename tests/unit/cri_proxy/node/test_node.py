from dataclasses import replace
from pathlib import Path

from cri_proxy.config.model import Config
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.pods import PodSpec, guaranteed
from cri_proxy.errors import StoreError
from cri_proxy.node.node import Environment, Node
from cri_proxy.state.rows import Saved
from tests.fakes.clock import ManualClock
from tests.fakes.grants import small_policy
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import FragilePolicy, background, owned, soon


async def test_a_store_that_cannot_be_read_is_as_one_that_was_lost(site: Site) -> None:
    a = await site.run("a", guaranteed("c", 2000))
    before = site.recorded()

    def fail() -> Saved:
        raise StoreError("state.db", "input/output error")

    site.store.load = fail  # type: ignore[method-assign]
    await site.open()
    assert site.recorded() == before
    assert site.node.context.ledger.holder(a.container_id("c")) is not None


async def test_a_fault_in_recovery_is_reported_and_tried_again() -> None:
    policy = FragilePolicy(small_policy())
    site = Site(policy)
    policy.broken.add("reinstate")
    opening = background(site.open())
    await soon(lambda: len(site.log.errors) >= 2)
    assert not site.node.coordinator.is_ready
    policy.broken.clear()
    await opening
    assert site.node.coordinator.is_ready


async def test_closing_ends_what_runs_and_keeps_what_was_saved(site: Site) -> None:
    site.clock = ManualClock()  # type: ignore[assignment]  # the same protocol
    await site.open()
    site.node.start_watching()
    await site.run("a", guaranteed("c", 2000))
    rows = site.store.load().rows
    await site.node.close()
    assert (len(site.node.background), len(site.node.context.tasks), len(rows)) == (0, 0, 1)


async def test_a_sandbox_is_remembered_until_it_is_removed(site: Site) -> None:
    a = await site.run("a", guaranteed("c", 2000))
    await site.node.settle()
    assert [s.sandbox_id for s in site.store.load().sandboxes] == [a.sandbox_id]
    await site.kubelet.remove_pod(a.sandbox_id)
    await site.node.settle()
    assert site.store.load() == Saved()


async def test_cpus_that_the_kubelet_sends_itself_are_told_with_the_remedy_and_do_not_pass(site: Site) -> None:
    spec, one = PodSpec("web", (guaranteed("c", 2000),)), guaranteed("c", 2000)
    sandbox_id = await site.kubelet.run_sandbox(spec)
    request = pods.create_request(spec, one, sandbox_id, node=site.kubelet.node)
    request.config.linux.resources.cpuset_cpus = "7"
    created = await site.kubelet.call("CreateContainer", request, pb.CreateContainerResponse)
    assert site.cpus(created.container_id) == str(owned(site, created.container_id)) != "7"
    (warning,) = site.node.warnings()
    assert "a call about default/web/c carried CPUs 7" in warning
    assert "cpuManagerPolicy: none" in warning


async def test_an_update_with_cpus_of_the_kubelets_own_is_told_too(site: Site) -> None:
    run = await site.run("web", guaranteed("c", 2000))
    await site.kubelet.update(run.container_id("c"), pb.LinuxContainerResources(cpuset_cpus="6-7"))
    assert "carried CPUs 6-7" in site.node.warnings()[0]


async def test_the_slow_check_looks_at_the_kubelets_state(tmp_path: Path) -> None:
    site = Site(small_policy())
    await site.open()
    given = Environment(site.runtime, site.store, site.clock, site.journal, kubelet_root=tmp_path)
    node = Node(site.policy, Config(), given)
    (tmp_path / "cpu_manager_state").write_text('{"policyName": "static"}')
    await node.slow_check()
    assert "policy static" in node.warnings()[0]


async def test_the_kubelets_state_is_looked_at_from_the_beginning(tmp_path: Path) -> None:
    site = Site(small_policy())
    await site.open()
    given = Environment(site.runtime, site.store, site.clock, site.journal, kubelet_root=tmp_path)
    node = Node(site.policy, Config(), given)
    (tmp_path / "cpu_manager_state").write_text('{"policyName": "static"}')
    node.start_watching()
    await node.context.tasks.join()
    assert "policy static" in node.warnings()[0]
    await node.background.cancel()


async def test_what_is_gathered_is_saved_at_the_end_and_new_sums_of_a_pod_at_once(site: Site) -> None:
    site.node.context.persistence.gather_seconds = 60
    sandbox_id = await site.kubelet.run_sandbox(PodSpec("a", (guaranteed("c", 2000),)))
    await site.node.settle()
    assert site.store.load().sandboxes == ()
    changed = replace(site.node.context.ledger.sandboxes[sandbox_id], config=b"")
    site.node.save_sandbox(changed)
    await site.node.settle()
    assert site.store.load().sandboxes == (changed,)
    await site.run("b", guaranteed("c", 1000))
    site.store.close = _no_close  # type: ignore[method-assign]
    await site.node.close()
    assert [row.state for row in site.store.load().rows] == ["running"]


async def _no_close() -> None:
    """The store can still be read."""
