"""Judge cri-proxy itself and the runtime behind it: running, alone, ready, started at boot, closed to others. Pure."""

from collections.abc import Iterator

from cri_proxy.doctor.catalog import Finding, FindingCode
from cri_proxy.doctor.facts.model import HostFacts, listed

_START = "systemctl start cri-proxy"
_INSTALL = "install packaging/cri-proxy.service, or the Debian package"
_SYSTEMD_PID = 1  # with socket activation it listens too


def runtime_socket(facts: HostFacts) -> Iterator[Finding]:
    """The runtime must listen where cri-proxy looks for it."""
    runtime, found = facts.runtime, facts.kubelet.distribution
    if not runtime.silence or found.runtime not in ("", runtime.socket):  # another one: own_runtime names it
        return
    yield FindingCode.RUNTIME_SOCKET.finding(
        f"nothing listens on the runtime's socket {runtime.socket}: {runtime.silence}",
        f"{found.restart}: {found.name} starts its containerd itself"
        if found.runtime
        else "start the runtime (systemctl start containerd), or set runtimeEndpoint to its socket in cri-proxy's "
        "configuration",
    )


def daemon_runs(facts: HostFacts) -> Iterator[Finding]:
    """The daemon must run, answer, and be ready."""
    own = facts.proxy
    if own.unusable:
        yield FindingCode.CONFIG_INVALID.finding(
            f"no daemon runs, and its configuration is not valid: {own.unusable}",
            "correct it, try it with `cri-proxy check-config PATH`",
        )
    if own.silence and not own.is_running:
        yield FindingCode.PROXY_STOPPED.finding(
            f"nothing serves cri-proxy's socket {own.listen}: {own.silence}",
            f"{_START}; `journalctl -u cri-proxy` shows why it has stopped"
            if own.is_enabled is not None
            else f"{_INSTALL}; then {_START}",
        )
    # Behind a runtime that is down every call is unanswered: that is ``runtime_socket``'s finding.
    elif own.silence and not facts.runtime.silence:
        yield FindingCode.PROXY_SILENT.finding(
            f"a call through {own.listen} is not answered: {own.silence}",
            "`journalctl -u cri-proxy` and `journalctl -u containerd` say why",
        )
    elif not own.silence and not own.is_running:
        yield FindingCode.PROXY_NOT_READY.finding(
            f"cri-proxy serves {own.listen}, and its daemon answers no commands: {own.unreachable}",
            "`journalctl -u cri-proxy` shows why; --admin names another socket of its commands",
        )
    for problem in own.problems:
        yield FindingCode.PROXY_NOT_READY.finding(
            f"the daemon is not ready: {problem}", "`cri-proxy status` shows more"
        )


def daemon_is_alone(facts: HostFacts) -> Iterator[Finding]:
    """One daemon must listen, and nothing else on its socket."""
    own = facts.proxy
    holders = own.holders or ()
    pids = {process.pid for process in own.processes} | {_SYSTEMD_PID}
    if holders and not any(process.pid in pids for process in holders):
        yield FindingCode.SOCKET_OWNER.finding(
            f"{listed(holders)} listens on {own.listen}, and is no daemon of cri-proxy",
            "stop it, then systemctl restart cri-proxy; or give one of them another socket (--listen)",
        )
    if len(own.processes) > 1:
        yield FindingCode.SECOND_PROXY.finding(
            f"{len(own.processes)} daemons of cri-proxy run: {listed(f'process {p.pid}' for p in own.processes)}; "
            "both pin the same containers unless one is handing over to the other",
            "stop those that `systemctl status cri-proxy` does not list",
        )


def daemon_starts_at_boot(facts: HostFacts) -> Iterator[Finding]:
    """After a boot the kubelet must find it."""
    match facts.proxy.is_enabled:
        case False:
            yield FindingCode.PROXY_DISABLED.finding(
                "cri-proxy.service is not enabled, and the kubelet's unit does not want it: after a boot the kubelet "
                "has no runtime",
                "systemctl enable cri-proxy",
            )
        case None:
            yield FindingCode.NO_UNIT.finding(
                "systemd has no unit cri-proxy.service: nothing starts the daemon after a boot or a crash", _INSTALL
            )


def devices(facts: HostFacts) -> Iterator[Finding]:
    """The files of devices must be in force, their sources agree, and containers get devices, none of them twice."""
    for problem in facts.proxy.cost_problems:
        yield FindingCode.COST_FILE.finding(
            f"a file of devices cannot be used: {problem}",
            "correct it, and it is applied at once; `cri-proxy check-config PATH` checks it too",
        )
    for problem in facts.proxy.disagreements:
        yield FindingCode.DEVICES_DISAGREE.finding(
            f"sources of devices disagree: {problem}",
            "compare with `cri-proxy devices list`, which shows the devices of this machine; correct the source "
            "that is wrong, or remove the fact from it",
        )
    for problem in facts.proxy.held_twice:
        yield FindingCode.DEVICE_HELD_TWICE.finding(
            problem,
            "delete one of the pods; ask on this node for devices of a type in one way, in resources or by annotation",
        )
    if facts.proxy.health_problem:
        yield FindingCode.DEVICE_HEALTH.finding(
            f"the health of devices cannot be read, what was known last stays: {facts.proxy.health_problem}",
            "read the file of devices.health as the daemon's user does, and look at what writes it; "
            "`cri-proxy devices list --health FILE` reads such a report",
        )
    if facts.proxy.shows_gpus:
        yield FindingCode.VISIBLE_GPUS.finding(
            "a container without a GPU keeps its own NVIDIA_VISIBLE_DEVICES, and NVIDIA's runtime shows it the GPUs "
            "that this names, also those of others",
            "set visibleDevices: void, and list in visibleDevicesNamespaces who has to see all GPUs",
        )
    for problem in facts.proxy.cdi_problems:
        what, _, remedy = problem.rpartition("; ")
        yield FindingCode.CDI.finding(what or remedy, remedy if what else "")


def access(facts: HostFacts) -> Iterator[Finding]:
    """Sockets, state and configuration must be root's."""
    for each in facts.access:
        if each.problem:
            what, _, remedy = each.problem.rpartition(": ")
            yield FindingCode.OPEN_ACCESS.finding(f"{each.path} {what}", remedy)


RULES = (runtime_socket, daemon_runs, daemon_is_alone, daemon_starts_at_boot, devices, access)
