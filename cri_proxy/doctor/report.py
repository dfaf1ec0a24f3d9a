"""``examine``: apply every rule to the facts of a node, and put what they find in the order in which to act. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from cri_proxy.doctor.catalog import Finding, FindingCode, Severity
from cri_proxy.doctor.facts.model import HostFacts, listed
from cri_proxy.doctor.rules import distribution, endpoint, managers, node, proxy, writers

Rule = Callable[[HostFacts], Iterator[Finding]]

_JUDGES: Final = (proxy, writers, managers, endpoint, node, distribution)
RULES: Final[tuple[Rule, ...]] = tuple(rule for judge in _JUDGES for rule in judge.RULES)
_SEVERITIES: Final = tuple(Severity)
_ORDER: Final = {str(code): i for i, code in enumerate(FindingCode)}

NOTHING_TO_MEND, MUST_BE_MENDED, NOT_SEEN = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Seen:
    """A part of the node and its state in a few words."""

    part: str
    state: str


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The facts, the findings in the order in which to act, and the files that could not be read."""

    seen: tuple[Seen, ...]
    findings: tuple[Finding, ...]
    unseen: tuple[str, ...] = ()

    @property
    def status(self) -> int:
        """Return the exit status: 1 when something must be mended, 2 when too little was seen to say so, else 0."""
        if any(finding.severity is Severity.MUST for finding in self.findings):
            return MUST_BE_MENDED
        return NOT_SEEN if self.unseen else NOTHING_TO_MEND


def examine(facts: HostFacts) -> DoctorReport:
    """Return the report of these facts: what to change, and what was seen."""
    unseen = (("the node's CPUs", facts.no_cpus), ("whom the running kubelet talks to", facts.no_connections))
    sentences = tuple(f"{what}: {why}" for what, why in unseen if why)
    # Where cri-proxy cannot be used, nothing else is worth a change.
    rules = (distribution.distribution,) if facts.kubelet.distribution.why_not else RULES
    return DoctorReport(tuple(_seen(facts)), _ordered(rules, facts), sentences)


def examine_removal(facts: HostFacts) -> DoctorReport:
    """Return the report of these facts for a removal of cri-proxy: whether the kubelet depends on it."""
    unseen = (f"whom the running kubelet talks to: {facts.no_connections}",) if facts.no_connections else ()
    return DoctorReport((Seen("kubelet", _kubelet_state(facts)),), _ordered((endpoint.uses_proxy,), facts), unseen)


def _ordered(rules: Iterable[Rule], facts: HostFacts) -> tuple[Finding, ...]:
    """Return the findings of the rules; those of a code stay in their rule's order."""
    found = [finding for rule in rules for finding in rule(facts)]
    ordered = sorted(found, key=lambda each: (_SEVERITIES.index(each.severity), _ORDER[each.code]))
    return tuple(dict.fromkeys(ordered))


def _seen(facts: HostFacts) -> Iterator[Seen]:
    kubelet, own, runtime = facts.kubelet, facts.proxy, facts.runtime
    yield Seen("kubelet", _kubelet_state(facts))
    if kubelet.files:
        yield Seen("its files", listed(file.path for file in kubelet.files))
    running = listed(f"process {process.pid}" for process in own.processes) or "no process"
    ready = "ready" if own.is_running and not own.problems else "not ready" if own.is_running else "does not answer"
    yield Seen("cri-proxy", f"{own.listen}, {running}, {ready}")
    if runtime.socket:
        yield Seen("runtime", ", ".join(filter(None, (runtime.socket, runtime.runc and f"runc {runtime.runc}"))))
    if own.cdi:
        yield Seen("CDI devices", own.cdi)
    if facts.cgroups.version:
        yield Seen("cgroups", f"v{facts.cgroups.version}")
    if facts.cpus is not None:
        cpus = facts.cpus
        sets = (("online", cpus.online), ("available", cpus.available), ("reserved", cpus.reserved))
        isolated = f", isolated {cpus.isolated}" if cpus.isolated else ""
        yield Seen("CPUs", ", ".join(f"{word} {found or 'none'}" for word, found in sets) + isolated)


def _kubelet_state(facts: HostFacts) -> str:
    kubelet = facts.kubelet
    if kubelet.process is None:
        return "does not run"
    match kubelet.is_client:
        case None:
            talks = "connections not seen"
        case True:
            talks = f"connected to {facts.proxy.listen}"
        case False:
            there = [path for path in kubelet.others if path == facts.runtime.socket]
            talks = f"connected to {there[0]}, not to cri-proxy" if there else "not connected to cri-proxy"
    return f"process {kubelet.process.pid}, {talks}"
