"""Pods whose topology hints are merged as a whole: refused before a container comes, and never for a fault."""

import pytest

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from tests.fakes.grants import small_policy
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import REJECT, FragilePolicy

WANTED = {"cri-proxy.io/topology-policy": "single-numa-node", "cri-proxy.io/topology-scope": "pod"}
TWO, THREE = guaranteed("c", 2000), guaranteed("d", 3000)


def pod(name: str, *containers: ContainerSpec, **annotations: str) -> PodSpec:
    return PodSpec(name, containers, annotations=tuple({**WANTED, **annotations}.items()))


async def test_a_pod_that_no_node_can_hold_gets_no_sandbox(site: Site) -> None:
    with pytest.raises(CallFailed, match="no NUMA node has all that the pod asks for; cpu: wanted 5 CPUs") as refused:
        await site.kubelet.run_sandbox(pod("a", TWO, THREE))
    assert (refused.value.code, site.runtime.node.sandboxes, site.node.context.ledger.sandboxes) == (9, {}, {})
    assert "refused" in site.log.warnings


async def test_a_pod_that_fits_on_a_node_runs_there_with_all_its_containers(site: Site) -> None:
    running = await site.run("a", TWO, guaranteed("d", 1000), **WANTED)
    zones = {site.recorded()[running.container_id(name)][1] for name in "cd"}
    assert len(zones) == 1


async def test_a_repeated_refusal_asks_neither_the_policy_nor_the_runtime_until_something_changes() -> None:
    policy = FragilePolicy(small_policy())
    site = Site(policy)
    await site.open()
    for _ in range(2):
        with pytest.raises(CallFailed, match="wanted 5 CPUs"):
            await site.kubelet.run_sandbox(pod("a", TWO, THREE))
        policy.broken.add("refused_pod")  # it is not asked again
    policy.broken.clear()
    assert len(site.node.refusals.known) == 1
    await site.run("b", TWO)
    with pytest.raises(CallFailed, match="wanted 5 CPUs"):
        await site.kubelet.run_sandbox(pod("a", TWO, THREE))


async def test_a_repeated_refusal_of_a_container_is_answered_at_once_too() -> None:
    policy = FragilePolicy(small_policy())
    site = Site(policy)
    await site.open()
    spec = pod("a", guaranteed("c", 5000), **{"cri-proxy.io/topology-scope": "container"})
    sandbox = await site.kubelet.run_sandbox(spec)
    for _ in range(2):
        with pytest.raises(CallFailed, match="the container asks for; cpu: wanted 5 CPUs"):
            await site.kubelet.create(spec, spec.containers[0], sandbox)
        policy.broken.add("decide")
    assert site.log.errors == []


@pytest.mark.parametrize("rules", [None, REJECT])
async def test_a_fault_refuses_no_pod(rules: object) -> None:
    policy = FragilePolicy(small_policy())
    site = Site(policy, rules=REJECT if rules else None)
    await site.open()
    policy.broken.add("refused_pod")
    sandbox = await site.kubelet.run_sandbox(pod("a", TWO, THREE))
    assert sandbox in site.node.context.ledger.sandboxes
    assert any("ZeroDivisionError" in error for error in site.log.errors)
