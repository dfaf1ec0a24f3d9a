"""Format the try-out's report: each container's request, placement, reason, and if the kernel confirms it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from cri_proxy.cli.render.columns import paint
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec
from cri_proxy.node.status.decision_views import Explanation
from policies.topology_aware import ReasonCode
from sysfs.cpuset import CpuSet
from sysfs.quantity import bytes_text
from sysfs.text import numbered
from tests.testbed.kernel import Allowed
from tests.tryout.workloads import LABEL

RESOURCES_FILE = "/.cri-proxy/resources.json"


@dataclass(frozen=True, slots=True)
class Observation:
    """One container: its request, the daemon's decision, and what the kernel allows.

    ``reads`` holds the own CPUs in its directory ``/.cri-proxy``; None without one.
    """

    pod: PodSpec
    container: ContainerSpec
    shows: str
    decision: Explanation | None
    allowed: Allowed | None  # None: it does not run
    reads: CpuSet | None = None

    @property
    def is_confirmed(self) -> bool:
        """True when the kernel has what the daemon chose."""
        chosen = self.decision.container if self.decision else None
        if chosen is None or self.allowed is None:
            return False
        is_as_read = self.reads in (None, chosen.exclusive | chosen.isolated)
        return is_as_read and chosen.cpus in (None, self.allowed.cpus) and chosen.mems in (None, self.allowed.mems)


def asked(pod: PodSpec, container: ContainerSpec) -> str:
    """Return the request as a person would say it.

    >>> web = ContainerSpec("c", cpu_request_mcpu=250, cpu_limit_mcpu=500)
    >>> asked(PodSpec("p", (web,)), web)
    'Burstable: CPU 250m to 500m'
    """
    parts = [
        _span("CPU", _cpu(container.effective_cpu_request_mcpu), _cpu(container.cpu_limit_mcpu)),
        _span("memory", _memory(container.effective_memory_request_bytes), _memory(container.memory_limit_bytes)),
    ]
    wanted = ", ".join(part for part in parts if part) or "nothing named"
    notes = "".join(f"; {key.rpartition('/')[2]}: {value}" for key, value in pod.annotations if key != LABEL)
    return f"{pod.qos}: {wanted}{notes}"


def chosen(decision: Explanation | None) -> str:
    """Return the CPUs and memory nodes that the daemon chose, or that it refused."""
    held = decision.container if decision else None
    if held is None:
        return "refused" if decision and decision.decision.outcome == "refused" else "nothing"
    parts = []
    if held.isolated:
        parts.append(f"{numbered('CPU', held.isolated)} (isolated by the kernel, its own)")
    if held.exclusive:
        parts.append(f"{numbered('CPU', held.exclusive)} (its own)")
    rest = (held.cpus or CpuSet()) - held.isolated - held.exclusive
    if rest:
        parts.append(f"{numbered('CPU', rest)} ({'reserved' if held.kind == 'reserved' else 'shared'})")
    where = f", {numbered('memory node', held.mems)}" if held.mems else ""
    return " and ".join(parts) + where + (f", in {held.pool}" if held.pool else "")


def why(decision: Explanation | None) -> str:
    """Return the reason for the pool, else the first one."""
    reasons = decision.decision.reasons if decision else ()
    return next(
        (reason.text for reason in reasons if reason.code == ReasonCode.POOL), reasons[0].text if reasons else ""
    )


def describe_observation(observation: Observation, *, confirmed_by: str, colours: bool = False) -> list[str]:
    """Return the lines of one container."""
    pod = observation.pod
    title = paint(f"{pod.namespace}/{pod.name}/{observation.container.name}", "bold", colours=colours)
    shows = paint(observation.shows, "dim", colours=colours)
    lines = [f"{title}  {shows}", _row("asked", asked(pod, observation.container))]
    lines.append(_row("chosen", chosen(observation.decision)))
    if reason := why(observation.decision):
        lines.append(_row("why", reason))
    if observation.allowed is None:
        return [*lines, _row(confirmed_by, paint("✗ it does not run", "red", colours=colours))]
    mark, style = ("✓", "green") if observation.is_confirmed else ("✗ not what was chosen", "red")
    allowed = observation.allowed
    said = f"Cpus_allowed_list {allowed.cpus}  Mems_allowed_list {allowed.mems}"
    lines.append(_row(confirmed_by, f"{said}  {paint(mark, style, colours=colours)}"))
    if observation.reads is not None:
        lines.append(_row("inside", f"{RESOURCES_FILE} lists {numbered('CPU', observation.reads)} of its own"))
    return lines


def describe_all(observations: Sequence[Observation], *, confirmed_by: str, colours: bool = False) -> str:
    """Return all containers, and a line that sums up."""
    blocks = ["\n".join(describe_observation(s, confirmed_by=confirmed_by, colours=colours)) for s in observations]
    confirmed = sum(s.is_confirmed for s in observations)
    total = len(observations)
    verdict = f"{confirmed} of {total} containers are where the daemon put them, confirmed by the {confirmed_by}."
    return "\n\n".join([*blocks, paint(verdict, "green" if confirmed == total else "red", colours=colours)])


def larger_machine(command: str) -> str:
    """Return what to run next where the machine has a single pool, so that no choice of pools was seen.

    >>> larger_machine("cri-proxy").splitlines()[-1]
    '  cri-proxy demo'
    """
    return f"""\
This machine has one pool, so there was none to choose. To see two packages with four NUMA nodes fill, emulated:
  {command} demo"""


def _row(name: str, text: str) -> str:
    return f"  {name:<8}{text}"


def _span(what: str, low: str, high: str) -> str:
    if not low:
        return ""
    if low == high:
        return f"{what} {low}"
    return f"{what} {low} to {high}" if high else f"{what} {low} or more"


def _cpu(mcpu: int) -> str:
    if not mcpu:
        return ""
    return f"{mcpu // 1000}" if mcpu % 1000 == 0 else f"{mcpu}m"


def _memory(count_bytes: int) -> str:
    return bytes_text(count_bytes) if count_bytes else ""
