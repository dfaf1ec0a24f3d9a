"""Plays the steps of a scenario on a node in memory, and looks at every container after each."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import assert_never

from cri_proxy.clock import Clock
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed, ConfigError, RuntimeUnavailable
from cri_proxy.simulate.amounts import DeclaredPod, resized
from cri_proxy.simulate.errors import ExpectationError, ScenarioError
from cri_proxy.simulate.expressions import evaluate
from cri_proxy.simulate.mistakes import check_steps
from cri_proxy.simulate.outcome import Seen, StepOutcome, moved_between
from cri_proxy.simulate.pods import Attempt, Found, KnownPod, NoSuchThing, Pods
from cri_proxy.simulate.scenario import (
    Action,
    Create,
    Delete,
    Expect,
    NewContainer,
    OnContainer,
    Reconfigure,
    Restart,
    Scenario,
    Step,
    Update,
)
from cri_proxy.simulate.sight import reasons_for, see
from cri_proxy.simulate.vocabulary import vocabulary
from cri_proxy.simulate.world import World
from cri_proxy.tryout.pods import ContainerSpec, create_request, resources, sandbox_config
from policies.base import PoolView
from policies.errors import PolicyBaseError
from sysfs.errors import SysfsBaseError
from sysfs.model import Machine
from sysfs.sources import load_machine

# How a device plugin would name the devices that it hands out (CDI: vendor/class=device).
CDI_KIND = "cri-proxy.io/pci"


class Player:
    """One scenario on its node. ``open`` first, ``close`` last."""

    def __init__(self, scenario: Scenario, clock: Clock | None = None) -> None:
        """Build the node; ``clock`` None: one that makes every run the same.

        Raises ScenarioError when the machine or the configuration does not do, or a step cannot be meant.
        """
        self.scenario = scenario
        check_steps(scenario)
        try:
            self.machine: Machine = load_machine(machine_source(scenario))
            self.world = World(self.machine, scenario.config, clock)
        except ConfigError as error:
            problem = f"config: {error.key}: {error.problem}" if error.key else f"config: {error.problem}"
            raise ScenarioError(scenario.source, scenario.line, problem) from None
        except (SysfsBaseError, PolicyBaseError) as error:
            raise ScenarioError(scenario.source, scenario.line, str(error)) from None
        self._pods = Pods(scenario)
        self._seen: Mapping[str, Seen] = {}
        self._last: StepOutcome | None = None

    async def open(self) -> None:
        """Start the node."""
        await self.world.recover()

    async def close(self) -> None:
        """End the node."""
        await self.world.close()

    def pool_views(self) -> tuple[PoolView, ...]:
        """The pool tree now."""
        return self.world.policy.pools(self.world.node.context.ledger.allocations)

    async def play(self) -> AsyncIterator[StepOutcome]:
        """Every step, in order; one that is refused doesn't stop the others."""
        for index, step in enumerate(self.scenario.steps):
            yield await self._step(index, step)

    async def _step(self, index: int, step: Step) -> StepOutcome:
        before = self._seen
        action = step.action
        if isinstance(action, Expect):
            return StepOutcome(index, step.written, self._unmet(action), before, is_expectation=True)
        named = self._named(action)
        error = await self._try(action)
        faults = await self.world.settle()
        self._seen = see(self.world, self._pods)
        outcome = StepOutcome(
            index,
            step.written,
            tuple(problem for problem in (error, *faults) if problem),
            self._seen,
            updated=moved_between(before, self._seen, named),
            named=named,
            reasons=self._reasons(named),
        )
        self._last = outcome
        return outcome

    async def _try(self, action: Action) -> str:
        """Do it; '' or why it was not done."""
        try:
            return await self._act(action)
        except CallFailed as error:
            return error.message
        except RuntimeUnavailable as error:
            return str(error)
        except NoSuchThing as error:
            return str(error)

    async def _act(self, action: Action) -> str:
        match action:
            case Create():
                return await self._create(action)
            case OnContainer():
                await self._on_container(action)
            case Update():
                return await self._update(action)
            case Delete():
                pod = self._pods.named(action.pod)
                await self.world.kubelet.remove_pod(pod.sandbox_id)
                self._pods.drop(pod)
            case Reconfigure():
                return await self.world.reconfigure(action.config)
            case Restart():
                await self._restart(action)
            case Expect():
                return "; ".join(self._unmet(action))
            case _:
                assert_never(action)
        return ""

    async def _create(self, create: Create) -> str:
        """The sandbox if it is new, then the containers one by one; a refused one doesn't stop the others."""
        known = self._pods.existing(create)
        for container in create.containers:
            earlier = known.attempt(container.name) if known is not None else None
            if earlier is not None and self._is_live(earlier):
                raise NoSuchThing(f"{create.pod}/{container.name} runs already; use restart-container or another name")
            self._require_devices(container)
        spec = self._pods.planned(create)
        if known is None:
            known = KnownPod(spec, await self._run_sandbox(spec))
        devices = {**known.devices, **{c.name: c.devices for c in create.containers}}
        self._pods.put(replace(known, spec=spec, devices=devices))
        names = {container.name for container in create.containers}
        wanted = [container for container in spec.containers if container.name in names]
        errors = [(c.name, await self._try_to_run(spec.namespace, spec.name, c)) for c in wanted]
        if len(wanted) == 1:
            return errors[0][1]
        return "; ".join(f"{name}: {error}" for name, error in errors if error)

    async def _run_sandbox(self, spec: DeclaredPod) -> str:
        # Not through Kubelet.run_sandbox: no log directory is made on this host for a pod that is none.
        kubelet = self.world.kubelet
        request = pb.RunPodSandboxRequest(config=sandbox_config(spec, kubelet.node))
        return (await kubelet.call("RunPodSandbox", request, pb.RunPodSandboxResponse)).pod_sandbox_id

    async def _try_to_run(self, namespace: str, pod_name: str, spec: ContainerSpec) -> str:
        try:
            await self._run(self._pods.named(f"{namespace}/{pod_name}"), spec)
        except CallFailed as error:
            return error.message
        return ""

    async def _run(self, pod: KnownPod, spec: ContainerSpec) -> None:
        """The next attempt of this container; the one before it is removed afterwards, as kubelets do."""
        kubelet = self.world.kubelet
        earlier = pod.attempt(spec.name)
        number = earlier.number + 1 if earlier is not None else 0
        request = create_request(pod.spec, spec, pod.sandbox_id, node=kubelet.node, attempt=number)
        for address in pod.devices.get(spec.name, ()):
            request.config.CDI_devices.add(name=f"{CDI_KIND}={address}")
        container_id = (await kubelet.call("CreateContainer", request, pb.CreateContainerResponse)).container_id
        self._pods.put(pod.with_attempt(Attempt(spec, container_id, number)))
        await kubelet.start(container_id)
        if earlier is not None:
            await kubelet.remove(earlier.id)

    async def _on_container(self, action: OnContainer) -> None:
        found = self._pods.container(action.container)
        match action.what:
            case "stop":
                await self.world.kubelet.stop(found.attempt.id)
                await self.world.kubelet.remove(found.attempt.id)
                self._pods.put(found.pod.without(found.attempt.spec.name))
            case "exit":
                self._require_live(found)
                self.world.runtime.exit(found.attempt.id)
                await self.world.notice_exits()
            case "restart-container":
                if self._is_live(found.attempt):
                    self.world.runtime.exit(found.attempt.id)
                await self._run(found.pod, found.attempt.spec)

    async def _update(self, update: Update) -> str:
        found = self._pods.container(update.container)
        self._require_live(found)
        spec = resized(found.attempt.spec, update.amounts, found.pod.spec.qos)
        if spec.cpu_limit_mcpu and spec.cpu_request_mcpu > spec.cpu_limit_mcpu:
            return f"a request of {spec.cpu_request_mcpu}m is more than the limit of {spec.cpu_limit_mcpu}m"
        kubelet = self.world.kubelet
        await kubelet.update(found.attempt.id, resources(found.pod.spec, spec, kubelet.node))
        self._pods.put(found.pod.with_attempt(replace(found.attempt, spec=spec)))
        return ""

    async def _restart(self, restart: Restart) -> None:
        match restart.what:
            case "proxy":
                await self.world.restart_proxy()
            case "runtime":
                await self.world.restart_runtime()
            case "both":
                await self.world.restart_both()

    def _is_live(self, attempt: Attempt) -> bool:
        return any(seen.is_live and seen.id == attempt.id for seen in self._seen.values())

    def _require_devices(self, container: NewContainer) -> None:
        there = [device.address for device in self.machine.devices]
        missing = [address for address in container.devices if address not in there]
        if missing:
            raise NoSuchThing(f"the machine has no device {missing[0]}; it has {', '.join(there) or 'none'}")

    def _require_live(self, found: Found) -> None:
        if not self._is_live(found.attempt):
            raise NoSuchThing(f"{found.name} has ended; restart-container starts it again")

    def _unmet(self, expect: Expect) -> tuple[str, ...]:
        """The expectations that are not met, each with the values that were found."""
        functions = vocabulary(self.machine, self.pool_views(), self._seen, self._last)
        unmet = []
        for text in expect.expressions:
            try:
                checked = evaluate(text, functions)
            except ExpectationError as error:
                unmet.append(f"{text}: {error}")
                continue
            if not checked.is_true:
                unmet.append(f"{text}: {checked.shown}")
        return tuple(unmet)

    def _named(self, action: Action) -> tuple[str, ...]:
        """The containers that a step is about, by their names in results."""
        try:
            match action:
                case Create():
                    spec = self._pods.planned(action)
                    return tuple(self._pods.name_of(spec, c.name) for c in action.containers)
                case OnContainer() | Update():
                    return (self._pods.container(action.container).name,)
                case Delete():
                    pod = self._pods.named(action.pod)
                    return tuple(self._pods.name_of(pod.spec, a.spec.name) for a in pod.attempts)
        except NoSuchThing:
            return ()
        return ()

    def _reasons(self, named: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        reasons = {}
        for pod in self._pods:
            for container in pod.spec.containers:
                name = self._pods.name_of(pod.spec, container.name)
                if name in named:
                    reasons[name] = reasons_for(self.world, self._pods.key_of(pod.spec, container.name))
        return reasons


def machine_source(scenario: Scenario) -> str | Mapping[str, object]:
    """The machine as ``load_machine`` takes it; a path counts from the scenario's directory if it is there."""
    machine = scenario.machine
    if isinstance(machine, Mapping) or machine == "host" or Path(machine).is_absolute():
        return machine
    beside = Path(scenario.source).parent / machine.partition(".tar.xz:")[0]
    is_archive = ".tar.xz:" in machine and beside.with_name(f"{beside.name}.tar.xz").exists()
    return str(Path(scenario.source).parent / machine) if beside.exists() or is_archive else machine
