"""Run one scenario step by step: hand each to kubelet or node, yield its outcome; evaluate ``expect`` steps."""

import re
from collections.abc import AsyncIterator, Mapping
from typing import assert_never

from cri_proxy.clock import Clock
from cri_proxy.errors import CallFailed, ConfigError, RuntimeUnavailable
from cri_proxy.simulate.checks import check_steps
from cri_proxy.simulate.errors import ExpectationError, StepError
from cri_proxy.simulate.expect.expressions import Evaluation, evaluate
from cri_proxy.simulate.expect.functions import LastStep, vocabulary
from cri_proxy.simulate.kubelet import SimulatedKubelet
from cri_proxy.simulate.machine import machine_source, whole_machine
from cri_proxy.simulate.node import SimulatedNode
from cri_proxy.simulate.outcome import NO_STEP, ContainerState, StepOutcome, moved_between
from cri_proxy.simulate.pods import Attempt, Pods
from cri_proxy.simulate.scenario import model
from cri_proxy.simulate.scenario.costs import ListedDevices, listed_words
from cri_proxy.simulate.snapshot import ContainerStates, ReasonCodes, reasons_for, resource_variables
from cri_proxy.yaml_fields import DocumentError
from policies.base import PoolView
from policies.errors import PolicyBaseError
from sysfs.errors import SysfsBaseError
from sysfs.model import Machine

_OF_FILES = re.compile(r"\b(told|notices)\s*\(")


class ScenarioRunner:
    """Runs one scenario on its node: ``open`` first, ``close`` last."""

    def __init__(self, scenario: model.Scenario, clock: Clock | None = None) -> None:
        """Build the node; ``clock`` None: a deterministic one.

        Raises DocumentError for a mistake in the machine, the configuration or a step.
        """
        self.scenario = scenario
        check_steps(scenario)
        try:
            machine, offline = whole_machine(machine_source(scenario))
            self.simulated = SimulatedNode(
                machine,
                scenario.config,
                clock,
                offline=offline,
                listed=ListedDevices(scenario.costs, scenario.listed),
                writes_files=_reads_files(scenario),
            )
        except ConfigError as error:
            problem = f"config: {error.key}: {error.problem}" if error.key else f"config: {error.problem}"
            raise DocumentError(scenario.source, scenario.line, problem) from None
        except (SysfsBaseError, PolicyBaseError) as error:
            raise DocumentError(scenario.source, scenario.line, str(error)) from None
        self._pods = Pods(scenario)
        self._states = ContainerStates(self.simulated, self._pods)
        self._seen: Mapping[str, ContainerState] = {}
        self._last = NO_STEP
        self._kubelet = SimulatedKubelet(self.simulated, self._pods, self._is_live)

    @property
    def machine(self) -> Machine:
        """The machine with the CPUs that are online now."""
        return self.simulated.machine

    async def open(self) -> None:
        """Start the node."""
        await self.simulated.recover()

    async def close(self) -> None:
        """Close the node."""
        await self.simulated.close()

    def pool_views(self) -> tuple[PoolView, ...]:
        """Return the pool tree now."""
        return self.simulated.policy.pools(self.simulated.node.context.ledger.allocations)

    async def run(self) -> AsyncIterator[StepOutcome]:
        """Run every step, in order; a refused one does not stop the others."""
        for index, step in enumerate(self.scenario.steps):
            yield await self.play(index, step)

    async def play(self, index: int, step: model.Step) -> StepOutcome:
        """Carry out one step, and wait until nothing is in progress."""
        before = self._seen
        action = step.action
        if isinstance(action, model.Expect):
            return StepOutcome(index, step.written, self._unmet(action), before, is_expectation=True)
        named = self._named(action)
        self._kubelet.refused.clear()
        updates, notices = self.simulated.runtime.update_count, self.simulated.notices
        error = await self._try(action)
        faults = await self.simulated.settle()
        self._seen = self._states.read()
        outcome = StepOutcome(
            index,
            step.written,
            tuple(problem for problem in (error, *faults) if problem),
            self._seen,
            updated=moved_between(before, self._seen, named),
            named=named,
            reasons=self._reasons(named),
            refused=dict(self._kubelet.refused),
            update_calls=self.simulated.runtime.update_count - updates,
            notices=self.simulated.notices - notices,
        )
        self._last = outcome
        return outcome

    def _reasons(self, named: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        if not named:
            return {}
        return {name: reasons_for(self.simulated, key) for name, key in self._pods.keys_of(named)}

    async def _try(self, action: model.OnPods | model.OnNode) -> str:
        """Carry out a step; return '' or why it failed."""
        try:
            return await self._carry_out(action)
        except CallFailed as error:
            return error.message
        except (RuntimeUnavailable, StepError) as error:
            return str(error)

    async def _carry_out(self, action: model.OnPods | model.OnNode) -> str:
        match action:
            case model.Create() | model.OnContainer() | model.Resize() | model.Delete():
                return await self._kubelet.carry_out(action)
            case _:
                return await self._on_node(action)

    async def _on_node(self, action: model.OnNode) -> str:
        match action:
            case model.Reconfigure():
                return await self.simulated.reconfigure(action.config)
            case model.Restart():
                await self.simulated.restart(action.what, loses_state=action.loses_state)
            case model.ResetNode():
                await self.simulated.reset()
            case model.Advance():
                await self.simulated.advance(action.seconds)
            case model.CpuHotplug():
                return await self.simulated.hotplug(action.what, action.cpus)
            case model.ChangeCosts():
                self.simulated.use_costs(action.costs)
            case model.ChangeInventory():
                self.simulated.use_listed(action.listed)
            case model.Tamper():
                found = self._kubelet.live(action.container)
                self.simulated.tamper(found.attempt.id, action.cpus, action.mems)
            case _:
                assert_never(action)
        return ""

    def _is_live(self, attempt: Attempt) -> bool:
        return any(seen.is_live and seen.id == attempt.id for seen in self._seen.values())

    def _unmet(self, expect: model.Expect) -> tuple[str, ...]:
        """Return the expectations that are not met, each with the values found."""
        policy = self.simulated.policy
        listed = {**policy.devices.costs.devices, **listed_words(policy.devices)}
        last = LastStep(self._last, ReasonCodes(self.simulated, self._pods), resource_variables)
        functions = vocabulary(self.machine, self.pool_views(), self._seen, last, listed)
        unmet = []
        for text in expect.expressions:
            try:
                checked = evaluate(text, functions)
            except ExpectationError as error:
                checked = Evaluation(False, str(error))
            if not checked.is_true:
                unmet.append(f"{text}: {checked.shown}")
        return tuple(unmet)

    def _named(self, action: model.Action) -> tuple[str, ...]:
        """Return the containers that a step names, as results name them."""
        try:
            match action:
                case model.Create():
                    spec = self._pods.planned(action)
                    return tuple(self._pods.name_of(spec, c.name) for c in action.containers)
                case model.OnContainer() | model.Resize() | model.Tamper():
                    return (self._pods.container(action.container).name,)
                case model.Delete():
                    pod = self._pods.named(action.pod)
                    return tuple(self._pods.name_of(pod.spec, a.spec.name) for a in pod.attempts)
        except StepError:
            return ()
        return ()


def _reads_files(scenario: model.Scenario) -> bool:
    """Return whether an expectation depends on the files of ``/.cri-proxy``: without one, nothing is written."""
    expected = (step.action for step in scenario.steps if isinstance(step.action, model.Expect))
    return any(_OF_FILES.search(text) for expect in expected for text in expect.expressions)
