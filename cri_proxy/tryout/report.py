"""The words of the try-out: what was asked, what was chosen, why, and what the kernel says. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from cri_proxy.cri_client.kernel import Allowed
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec
from cri_proxy.node.status.model import Explanation
from cri_proxy.tryout.workloads import LABEL
from policies.topology_aware.reason_codes import ReasonCode
from sysfs.cpuset import CpuSet, NodeSet

MIB = 1 << 20
TOLD_FILE = "/.cri-proxy/resources.json"
BOLD, DIM, GREEN, RED, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[31m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Paint:
    """Colours, where a terminal shows them."""

    is_on: bool

    def __call__(self, style: str, text: str) -> str:
        """The text in this style."""
        return f"{style}{text}{PLAIN}" if self.is_on else text


@dataclass(frozen=True, slots=True)
class Sighting:
    """One container: what was asked for, what the daemon says of it, what the kernel allows it.

    ``reads``: the CPUs of its own that it finds in its directory ``/.cri-proxy``; None where there is none to read.
    """

    pod: PodSpec
    container: ContainerSpec
    shows: str
    decision: Explanation | None
    allowed: Allowed | None  # None: it does not run
    reads: CpuSet | None = None

    @property
    def is_confirmed(self) -> bool:
        """Whether the kernel says what the daemon chose."""
        chosen = self.decision.container if self.decision else None
        if chosen is None or self.allowed is None:
            return False
        is_told = self.reads in (None, chosen.exclusive | chosen.isolated)
        return is_told and chosen.cpus in (None, self.allowed.cpus) and chosen.mems in (None, self.allowed.mems)


def asked(pod: PodSpec, container: ContainerSpec) -> str:
    """The request as a person would say it.

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
    """What the daemon gave, or that it refused."""
    held = decision.container if decision else None
    if held is None:
        return "refused" if decision and decision.decision.outcome == "refused" else "nothing"
    parts = []
    if held.isolated:
        parts.append(f"{_cpus(held.isolated)} (isolated by the kernel, its own)")
    if held.exclusive:
        parts.append(f"{_cpus(held.exclusive)} (its own)")
    rest = (held.cpus or CpuSet()) - held.isolated - held.exclusive
    if rest:
        parts.append(f"{_cpus(rest)} ({'reserved' if held.kind == 'reserved' else 'shared'})")
    where = f", {_mems(held.mems)}" if held.mems else ""
    return " and ".join(parts) + where + (f", in {held.pool}" if held.pool else "")


def why(decision: Explanation | None) -> str:
    """The reason for the pool, else the first one."""
    reasons = decision.decision.reasons if decision else ()
    return next(
        (reason.text for reason in reasons if reason.code == ReasonCode.POOL), reasons[0].text if reasons else ""
    )


def describe_sighting(sighting: Sighting, *, witness: str, paint: Paint) -> list[str]:
    """The lines of one container."""
    pod = sighting.pod
    title = paint(BOLD, f"{pod.namespace}/{pod.name}/{sighting.container.name}")
    lines = [f"{title}  {paint(DIM, sighting.shows)}", _row("asked", asked(pod, sighting.container))]
    lines.append(_row("chosen", chosen(sighting.decision)))
    if reason := why(sighting.decision):
        lines.append(_row("why", reason))
    if sighting.allowed is None:
        return [*lines, _row(witness, paint(RED, "✗ it does not run"))]
    mark = paint(GREEN, "✓") if sighting.is_confirmed else paint(RED, "✗ not what was chosen")
    allowed = sighting.allowed
    said = f"Cpus_allowed_list {allowed.cpus}  Mems_allowed_list {allowed.mems}"
    lines.append(_row(witness, f"{said}  {mark}"))
    if sighting.reads is not None:
        lines.append(_row("inside", f"{TOLD_FILE} says {_cpus(sighting.reads)} of its own"))
    return lines


def describe_all(sightings: Sequence[Sighting], *, witness: str, paint: Paint) -> str:
    """All containers, and one line that sums up."""
    blocks = ["\n".join(describe_sighting(s, witness=witness, paint=paint)) for s in sightings]
    confirmed = sum(s.is_confirmed for s in sightings)
    total = len(sightings)
    verdict = f"{confirmed} of {total} containers sit where the daemon put them, says the {witness}."
    return "\n\n".join([*blocks, paint(GREEN if confirmed == total else RED, verdict)])


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
    return f"{count_bytes // MIB}Mi" if count_bytes else ""


def _cpus(cpus: CpuSet) -> str:
    return f"{'CPU' if len(cpus) == 1 else 'CPUs'} {cpus}"


def _mems(mems: NodeSet) -> str:
    return f"{'memory node' if len(mems) == 1 else 'memory nodes'} {mems}"
