"""Format a scenario's results as text: each step with its containers, moves, problems and a summary. Pure."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from cri_proxy.simulate.outcome import ContainerState, MovedContainer, StepOutcome
from cri_proxy.simulate.scenario import model
from policies.base import PoolView
from sysfs.model import Machine
from sysfs.text import numbered, plural

_WITHOUT_VALUES = {
    model.ResetNode: "reset: the proxy ends, every container is widened",
    model.ChangeCosts: "the costs of devices change",
    model.ChangeInventory: "the inventory of devices changes",
}
_DONE = {"stop": "stopped", "exit": "has ended", "restart-container": "restarted"}


def heading(
    scenario: model.Scenario, machine: Machine, pools: Sequence[PoolView], warnings: Iterable[str]
) -> list[str]:
    """Return the lines before the first step."""
    lines = [f"{scenario.source}:{scenario.line}{': ' + scenario.about if scenario.about else ''}"]
    parts = [
        plural(len(machine.packages), "package"),
        plural(len(machine.nodes), "NUMA node"),
        f"{plural(len(machine.online), 'CPU')} ({machine.online})",
    ]
    if machine.isolated:
        parts.append(f"isolated {machine.isolated}")
    if pools and pools[0].reserved:
        parts.append(f"reserved {pools[0].reserved}")
    lines.append(f"  machine: {', '.join(parts)}")
    lines += [f"  note: {warning}" for warning in warnings]
    return lines


def step_lines(step: model.Step, outcome: StepOutcome) -> list[str]:
    """Return the lines of one step."""
    lines = [f"{outcome.index:>3}  {headline(step.action)}"]
    if outcome.is_expectation:
        return [*lines, *(f"     NO: {problem}" for problem in outcome.problems)]
    lines += [f"     REFUSED: {problem}" for problem in outcome.problems]
    for name in outcome.named:
        seen = outcome.containers.get(name)
        if seen is not None and seen.is_live:
            lines.append(f"     {name}: {placement_text(seen)}")
            lines += [f"         {reason}" for reason in outcome.reasons.get(name, ())]
    lines += [f"     moved {moved.container}: {change_text(moved)}" for moved in outcome.updated]
    if (
        isinstance(step.action, model.OnNode)
        and not isinstance(step.action, model.Tamper)
        and outcome.ok
        and not outcome.updated
    ):
        again = f"; {plural(outcome.update_calls, 'update')} sent again" if outcome.update_calls else ""
        lines.append(f"     no container moved{again}")
    return lines


def summary(outcomes: Sequence[StepOutcome]) -> str:
    """Return the line after the last step."""
    expectations = [o for o in outcomes if o.is_expectation]
    others = [o for o in outcomes if not o.is_expectation]
    refused = sum(not o.ok for o in others)
    unmet = sum(not o.ok for o in expectations)
    parts = [plural(len(others), "step"), f"{refused} refused" if refused else "none refused"]
    if expectations:
        parts.append(f"{unmet} of {len(expectations)} expectations not met" if unmet else "all expectations met")
    return f"  {', '.join(parts)}"


def headline(action: model.Action) -> str:
    """Return a step in one line."""
    match action:
        case model.Create():
            names = ", ".join(container.name for container in action.containers)
            qos = f" ({action.qos.value})" if action.qos is not None else ""
            where = f" in {action.namespace}" if action.namespace is not None else ""
            return f"create pod {action.pod}{where}{qos}: {names}"
        case model.OnContainer():
            return f"{action.container} {_DONE[action.what]}"
        case model.Resize():
            return f"resize {action.container}"
        case model.Delete():
            return f"delete pod {action.pod}"
        case model.Expect():
            return f"expect {'; '.join(action.expressions)}"
        case _:
            return _node_headline(action)


def _node_headline(action: model.OnNode) -> str:
    match action:
        case model.Reconfigure():
            return f"reconfigure: {', '.join(action.config)}"
        case model.Restart():
            who = "proxy and runtime" if action.what == "both" else action.what
            return f"restart {who}{', the state is lost' if action.loses_state else ''}"
        case model.ResetNode() | model.ChangeCosts() | model.ChangeInventory():
            return _WITHOUT_VALUES[type(action)]
        case model.Advance():
            return f"{action.seconds:g} seconds pass"
        case model.CpuHotplug():
            return f"{numbered('CPU', action.cpus)} {'goes' if len(action.cpus) == 1 else 'go'} {action.what}"
        case model.Tamper():
            files = (("cpuset.cpus", action.cpus), ("cpuset.mems", action.mems))
            written = ", ".join(f"{ids or 'nothing'} to {name}" for name, ids in files if ids is not None)
            return f"another process writes {written} of {action.container}"
        case _:
            assert_never(action)


def placement_text(seen: ContainerState) -> str:
    """Return where a container is, in one line: what the runtime has recorded, by the kinds that were granted."""
    memory = numbered("memory node", seen.mems) if seen.mems else "memory not pinned"
    devices = f", devices {', '.join(seen.devices)}" if seen.devices else ""
    return f"{_cpus(seen)}, {memory}{f', {seen.pool}' if seen.pool else ''}{devices}{_elsewhere(seen)}"


def _cpus(seen: ContainerState) -> str:
    if not seen.cpus:
        return "CPUs not pinned"  # under PinCPU false other containers may use the CPUs booked for it
    kinds = (
        (seen.isolated & seen.cpus, "isolated"),
        (seen.exclusive & seen.cpus, "exclusive to its pod" if seen.pod_cpus else "exclusive"),
        ((seen.isolated | seen.exclusive) - seen.cpus, "hidden"),
        (seen.reserved, "reserved"),
    )
    parts = [f"{numbered('CPU', ids)} {kind}" for ids, kind in kinds if ids]
    if seen.shared:
        booked = f" ({seen.shared_mcpu}m)" if seen.shared_mcpu else " (overcommitted)" if seen.overcommitted else ""
        parts.append(f"{numbered('CPU', seen.shared)} shared{booked}")
    return " + ".join(parts)


def _elsewhere(seen: ContainerState) -> str:
    """Return the sets that the kernel enforces, where they differ from the runtime's record."""
    parts = [
        f"{what} {kernel}"
        for what, recorded, kernel in (("CPUs", seen.cpus, seen.kernel_cpus), ("nodes", seen.mems, seen.kernel_mems))
        if recorded and kernel and recorded != kernel
    ]
    return f"; the kernel has {' and '.join(parts)}" if parts else ""


def change_text(moved: MovedContainer) -> str:
    """Return the changed sets of a container that moved, before and after."""
    parts = []
    if moved.before.cpus != moved.after.cpus:
        parts.append(f"CPUs {moved.before.cpus or 'any'} -> {moved.after.cpus or 'any'}")
    if moved.before.mems != moved.after.mems:
        parts.append(f"memory nodes {moved.before.mems or 'any'} -> {moved.after.mems or 'any'}")
    return ", ".join(parts)
