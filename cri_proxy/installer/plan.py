"""``plan``: what has to be done to a host, from what is seen of it, or why it cannot be done. Changes nothing."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.doctor.catalog import Finding, FindingCode, Severity
from cri_proxy.doctor.facts.model import HostFacts, KubeletFacts
from cri_proxy.doctor.report import examine
from cri_proxy.errors import CriProxyError
from cri_proxy.installer.host import BASE, CURRENT, Content, NodeHost
from cri_proxy.installer.journal import Action, InstallJournal, KubeletEdit
from cri_proxy.kubelet.distributions import KubernetesDistribution
from cri_proxy.kubelet.edit_text import edited
from cri_proxy.kubelet.edits import Edit
from cri_proxy.kubelet.settings import ENDPOINT

DAEMON, NODE = "daemon", "node"
"""The checks that the actions wait for."""
UNIT: Final = "cri-proxy.service"
GUARD: Final = "cri-proxy-turn-back"
CONFIG: Final = "/etc/cri-proxy/cri-proxy.yaml"
PROGRAM: Final = "/usr/local/bin/cri-proxy"
_UNITS: Final = "/etc/systemd/system"
# The package's unit, where it may be, and the virtual environment of an installation from the sources.
_OTHERS: Final = (
    *("/usr/lib/systemd/system/cri-proxy.service", "/lib/systemd/system/cri-proxy.service"),
    f"{BASE}/pyvenv.cfg",
)
_SELINUX: Final = "/sys/fs/selinux/enforce"
_RUNTIME: Final = "/run/containerd/containerd.sock"
# Findings that the installation itself mends. Any other one that must be mended keeps the node as it is.
_MENDED: Final = frozenset(
    map(
        str,
        (
            FindingCode.RUNTIME_ELSEWHERE,
            FindingCode.CONFIG_INVALID,
            FindingCode.PROXY_STOPPED,
            FindingCode.PROXY_SILENT,
            FindingCode.PROXY_NOT_READY,
            FindingCode.PROXY_DISABLED,
            FindingCode.OPEN_ACCESS,
            FindingCode.ENDPOINT,
            FindingCode.KUBELET_ELSEWHERE,
            FindingCode.KUBEADM_ENDPOINT,
        ),
    )
)


class CannotInstall(CriProxyError):
    """Why a node is left as it is, with the remedy."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """``release`` is to be installed from its ``tree``, for a daemon with the configuration ``config``.

    ``guard_seconds`` is how long the host waits until it turns back by itself.
    """

    release: str
    tree: Path
    guard_seconds: int = 900
    config: str = CONFIG

    def text(self, name: str) -> str:
        """Return a file of the release that hosts get. Blocks. Raises CannotInstall."""
        path = self.tree / "host" / name
        try:
            return path.read_text()
        except OSError as error:
            raise CannotInstall(f"{path}: cannot read: {error.strerror}; the image is not whole") from error


def plan(host: NodeHost, root: Path, facts: HostFacts, wanted: Wanted, before: InstallJournal | None) -> InstallJournal:
    """Return what leads this host to the release. Blocks. Raises CannotInstall and HostFailed."""
    is_upgrade = before is not None and bool(before.base)
    if not is_upgrade:
        _refuse_foreign(host)
    mending = [finding for finding in examine(facts).findings if finding.severity is Severity.MUST]
    blocking = [f"{each.text}; remedy: {each.remedy}" for each in mending if each.code not in _MENDED]
    if blocking:
        raise CannotInstall(". ".join(blocking))
    if wanted.config != CONFIG and not (root / wanted.config.lstrip("/")).exists():
        raise CannotInstall(
            f"{wanted.config} is not there yet: the config agent of this node writes it (docs/fleet.md)"
        )
    actions = [*_program(host, facts, wanted, is_upgrade=is_upgrade)]
    actions += _guard(host, wanted)
    # An upgrade finds the kubelet led to the proxy already, and restarts it for nothing else.
    edits = () if is_upgrade and not mending else _edits(facts, mending)
    actions += _kubelet(host, root, facts.kubelet, edits)
    actions.append(Action("wait until the Node is Ready", until=NODE))
    base, base_release = (before.base, before.base_release) if before is not None else ((), "")
    return InstallJournal(wanted.release, tuple(actions), base=base, base_release=base_release)


def _refuse_foreign(host: NodeHost) -> None:
    for path in (*_OTHERS, f"{_UNITS}/{UNIT}"):
        if host.read(path) is not None:
            raise CannotInstall(
                f"{path} is there: cri-proxy was installed in another way; remove that, or go on with it"
            )


def _program(host: NodeHost, facts: HostFacts, wanted: Wanted, *, is_upgrade: bool) -> Iterator[Action]:
    """Yield the release, its unit, and the daemon. A part of the way back comes first, to be gone last."""
    unit = wanted.text(UNIT)
    runtime = facts.kubelet.distribution.runtime
    options = f" --config {wanted.config}" if wanted.config != CONFIG else ""
    options += f" --runtime-endpoint unix://{runtime}" if runtime not in ("", _RUNTIME) else ""
    unit = unit.replace("@OPTIONS@", options)
    yield Action("copy the release", release=wanted.release)
    again = ("systemctl", "restart", "--no-block", UNIT)  # the check that follows waits, and says why in vain
    yield Action("keep the way back", undo=(("systemctl", "daemon-reload"), *([again] if is_upgrade else [])))
    yield _change(host, "name the release in use", CURRENT, Content(target=wanted.release))
    if host.read(_SELINUX) is not None:
        # What a pod copies has the label of the directory, and systemd may start nothing below /opt that is no bin_t.
        yield Action("label the release", do=(("restorecon", "-R", BASE),))
    if host.read(PROGRAM) is None:
        yield _change(host, "name the program", PROGRAM, Content(target=f"{CURRENT}/bin/cri-proxy"))
    if wanted.config == CONFIG and host.read(CONFIG) is None:
        new = Content(wanted.text("cri-proxy.yaml"))
        yield Action("write a configuration", path=CONFIG, new=new, is_of_operator=True)
    yield _change(host, "write the unit", f"{_UNITS}/{UNIT}", Content(unit))
    # Containers get back all CPUs once nothing places them any more.
    reset = (f"{CURRENT}/bin/cri-proxy", "reset", "--config", wanted.config, *options.split())
    stop = (("systemctl", "disable", "--now", UNIT), reset)
    start = (("systemctl", "daemon-reload"), ("systemctl", "enable", UNIT), again)
    yield Action("start the daemon", do=start, undo=() if is_upgrade else stop)
    yield Action("wait until the daemon is ready", until=DAEMON)


def _guard(host: NodeHost, wanted: Wanted) -> Iterator[Action]:
    """Yield a timer of the host that turns back: where this pod ends, or a boot leaves the node without a runtime."""
    for name in (f"{GUARD}.service", f"{GUARD}.timer"):
        text = wanted.text(name).replace("@SECONDS@", str(wanted.guard_seconds))
        yield Action("guard the node", path=f"{_UNITS}/{name}", new=Content(text), is_guard=True)
    start = (("systemctl", "daemon-reload"), ("systemctl", "enable", "--now", f"{GUARD}.timer"))
    stop = (("systemctl", "disable", "--now", f"{GUARD}.timer"),)
    yield Action("start the guard", do=start, undo=stop, is_guard=True)


def _edits(facts: HostFacts, mending: list[Finding]) -> tuple[Edit, ...]:
    """Return the edits that lead the kubelet to the proxy, in places that last. Raises CannotInstall."""
    kubelet, endpoint = facts.kubelet, facts.proxy.endpoint
    found = [edit for finding in mending if finding.code in _MENDED for edit in finding.edits]
    if any(finding.code == str(FindingCode.ENDPOINT) and not finding.edits for finding in mending):
        found.append(kubelet.edit(ENDPOINT, endpoint))
    for edit in found:
        if not edit.place.startswith("/"):
            raise CannotInstall(f"the kubelet's endpoint is not changed on the node here: {edit}")
    return tuple(dict.fromkeys(found))


def _kubelet(host: NodeHost, root: Path, kubelet: KubeletFacts, edits: tuple[Edit, ...]) -> Iterator[Action]:
    if not edits:
        return
    restart = _restart(root, kubelet.distribution)
    yield Action("keep the kubelet's way back", undo=restart)
    if restart[-1][0] == "systemctl":
        path = f"{_UNITS}/{restart[-1][-1]}.d/10-cri-proxy.conf"
        yield _change(host, "start the daemon first", path, Content(f"[Unit]\nWants={UNIT}\nAfter={UNIT}\n"))
    for edit in edits:
        old = host.read(edit.place)
        text = old.text if old is not None else ""
        try:
            new = Content(edited(text, edit), old.mode if old is not None else 0o644)
        except ValueError as error:
            raise CannotInstall(f"{edit.place}: {error}") from error
        key = KubeletEdit(edit.key, edit.value or "", _value_before(kubelet, edit))
        yield Action(str(edit), path=edit.place, new=new, old=old, edit=key)
    yield Action("restart the kubelet", do=restart)


def _value_before(kubelet: KubeletFacts, edit: Edit) -> str | None:
    settings = [each.get(ENDPOINT) for each in (kubelet.next, kubelet.instance) if each is not None]
    there = (each.value for each in settings if each.where.partition(", --")[0] == edit.place and not each.is_default)
    return next(there, None)


def _restart(root: Path, distribution: KubernetesDistribution) -> tuple[tuple[str, ...], ...]:
    """Return the commands that restart the kubelet. Raises CannotInstall where only a person can."""
    words = shlex.split(distribution.restart.partition(" (or ")[0].rstrip(","))
    if words[0] not in ("systemctl", "snap"):
        raise CannotInstall(f"the kubelet cannot be restarted from here: {distribution.restart}")
    if words[0] == "snap":
        return (tuple(words),)
    units = distribution.units if " (or " in distribution.restart else ()
    there = [unit for unit in units if (root / _UNITS[1:] / unit).exists()]
    unit = there[0] if there else words[-1] if "." in words[-1] else f"{words[-1]}.service"
    return (("systemctl", "daemon-reload"), ("systemctl", "restart", unit))


def _change(host: NodeHost, name: str, path: str, new: Content) -> Action:
    return Action(name, path=path, new=new, old=host.read(path))
