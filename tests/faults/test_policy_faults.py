"""A policy that raises, whatever it is asked: the node goes on, and is as it should be once the policy works again."""

from contextlib import suppress
from typing import cast

import pytest

from cri_proxy.config.model import Config
from cri_proxy.errors import CallFailed
from policies.policy import Policy
from tests.faults.sweep import SPEC, Scene, going_on

QUESTIONS = (
    "decide",
    "overcommitted",
    "pinnings",
    "release",
    "narrowed",
    "better_places",
    "affinity_reasons",
    "defaults",
    "after_cold_start",
    "reinstate",
    "fallback",
    "pools",
)


class Breakable:
    """Another policy, whose methods named in ``broken`` raise."""

    def __init__(self, inner: Policy) -> None:
        self._inner = inner
        self.broken: set[str] = set()

    def __getattr__(self, name: str) -> object:
        if name in self.broken:
            raise ZeroDivisionError(f"{name} is broken")
        return getattr(self._inner, name)


def scene_with(rules: Config) -> tuple[Scene, Breakable]:
    made: list[Breakable] = []

    def around(policy: Policy) -> Policy:
        made.append(Breakable(policy))
        return cast(Policy, made[0])

    return Scene(rules=rules, around=around), made[0]


async def whole_story(scene: Scene) -> None:
    """Every call of a pod's life, whatever became of the ones before."""
    sandbox = await scene.kubelet.run_sandbox(SPEC)
    ids = []
    for container in SPEC.containers:
        with suppress(CallFailed):
            ids.append(await scene.kubelet.create(SPEC, container, sandbox))
            await scene.kubelet.start(ids[-1])
    for container_id in ids:
        with suppress(CallFailed):
            await scene.kubelet.update(container_id, scene.runtime.record(container_id))
    with suppress(ZeroDivisionError):
        await scene.node.slow_check()  # the node looks again half a minute later
    for container_id in ids[:1]:
        await scene.kubelet.stop(container_id)
        await scene.kubelet.remove(container_id)


@pytest.mark.parametrize("question", [*QUESTIONS, "all of them"])
@pytest.mark.parametrize("choice", ["passthrough", "reject"])
async def test_the_node_goes_on(question: str, choice: str) -> None:
    rules = Config(on_policy_error="reject") if choice == "reject" else Config()
    scene, policy = scene_with(rules)
    async with going_on(scene):
        scene.watches = False  # nothing can be asked of the policy, by us neither
        policy.broken.update(QUESTIONS if question == "all of them" else {question})
        await whole_story(scene)
        policy.broken.clear()
        scene.watches = True


@pytest.mark.parametrize("question", QUESTIONS)
async def test_by_default_no_container_is_kept_from_running(question: str) -> None:
    scene, policy = scene_with(Config())
    async with going_on(scene):
        scene.watches = False
        policy.broken.add(question)
        running = await scene.kubelet.run_pod(SPEC)
        policy.broken.clear()
        scene.watches = True
        assert all(scene.runtime.node.containers[container_id].running for _, container_id in running.containers)
