"""The distributions of Kubernetes that we know: how each starts its kubelet, and the place in which a setting lasts.

``docs/distributions.md`` has this table. Sources are the documentation and start-up code of each project.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from cri_proxy.kubelet.edits import ARG, UNNAMED, Edit
from cri_proxy.kubelet.settings import flag_of

_RESTART: Final = "systemctl restart kubelet"
_K3S_SOCKET: Final = "/run/k3s/containerd/containerd.sock"


@dataclass(frozen=True, slots=True)
class KubernetesDistribution:
    """A way to start the kubelet.

    ``signs`` are paths of which one is there, ``os_id`` is that of os-release. ``place`` is where settings last, for
    people; ``config`` the file of it that holds ``kubelet-arg``, ``arguments`` one with a flag on each line, with what
    its ``variables`` stand for. Files like those of ``rewritten`` are written again at each start. ``is_noted``: doctor
    says where settings last. ``why_not``: why cri-proxy cannot be used there.
    """

    name: str
    place: str
    signs: tuple[str, ...] = ()
    tried: str = "made-up root"
    os_id: str = ""
    config: str = ""
    arguments: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    drop_ins: str = ""
    rewritten: tuple[str, ...] = ()
    runtime: str = ""
    containerd: str = "/etc/containerd/config.toml"
    units: tuple[str, ...] = ("containerd.service",)
    restart: str = _RESTART
    remark: str = ""
    is_noted: bool = True
    why_not: str = ""

    @property
    def reload(self) -> str:
        """Return the command that makes the kubelet take its changed files."""
        return f"systemctl daemon-reload && {self.restart}" if self.restart == _RESTART else self.restart

    @property
    def stop(self) -> str:
        """Return the command that stops the kubelet."""
        return (_RESTART if self.is_booted else self.restart).replace("restart", "stop")

    @property
    def is_booted(self) -> bool:
        """Return whether the kubelet takes what was changed at the node's next boot only."""
        return "restart" not in self.restart

    @property
    def is_service_of_its_own(self) -> bool:
        """Return whether the kubelet runs inside another service, or in one of another name."""
        return not self.is_booted and self.restart != _RESTART

    def running_as(self, units: Sequence[str]) -> "KubernetesDistribution":
        """Return this one with the service that runs the kubelet, where the node has one of the two units alone."""
        if self.config and len(units) == 1:
            return replace(self, restart=f"systemctl restart {units[0].removesuffix('.service')}")
        return self

    def lasting(self, edit: Edit) -> Edit:
        """Return the edit in the place where it lasts: files that are written at each start hold no change.

        A place that is not known yet is the distribution's own.
        """
        is_elsewhere = edit.place == UNNAMED or any(fnmatchcase(edit.place, pattern) for pattern in self.rewritten)
        is_flag = edit.key.startswith("--")
        flag = edit.key[2:] if is_flag or not edit.key else flag_of(edit.key)
        if edit.key and self.config and (is_elsewhere or is_flag):
            return replace(edit, place=self.config if is_elsewhere else edit.place, key=f"{ARG}{flag}")
        if edit.key and self.arguments and is_elsewhere:
            return replace(edit, place=self.arguments, key=f"--{flag}")
        if edit.key and self.rewritten and is_elsewhere:
            return replace(edit, place=f"spec.kubelet.{'flags' if is_flag else 'config'} of NodeConfig")
        return edit


def _rancher(name: str, program: str, units: tuple[str, ...], signs: tuple[str, ...]) -> KubernetesDistribution:
    data = f"/var/lib/rancher/{program}/agent/etc"
    config = f"/etc/rancher/{program}/config.yaml"
    read = "; how arguments are merged was read in its sources; played" if program == "k3s" else ""
    return KubernetesDistribution(
        name,
        f"`kubelet-arg` in `{config}`",
        (f"etc/rancher/{program}", *signs),
        f"made-up root{read}",
        config=config,
        drop_ins=f"{data}/kubelet.conf.d",
        rewritten=(f"{data}/kubelet.conf.d/00-*", name),  # other drop-ins beside it are the operator's
        runtime=_K3S_SOCKET,
        containerd=f"{data}/containerd/config.toml",
        units=units,
        restart=f"systemctl restart {units[0].removesuffix('.service')} (or {units[1].removesuffix('.service')})",
        remark=(
            f"`container-runtime-endpoint` of {name} itself stays unset: it switches its containerd off, while the "
            "kubelet's of the same name stands in `kubelet-arg`"
        ),
    )


DISTRIBUTIONS: Final = (
    KubernetesDistribution(
        "Talos",
        "nowhere",
        tried="documentation; that it refuses the flag was read in its sources",
        os_id="talos",
        why_not="its root is read-only, it runs no services of others beside its own on the host, and it refuses "
        "`container-runtime-endpoint` among the kubelet's `extraArgs`",
    ),
    KubernetesDistribution(
        "Bottlerocket",
        "nowhere",
        tried="documentation only",
        os_id="bottlerocket",
        why_not="its root is read-only, it writes the kubelet's unit and configuration from its settings, and host "
        "containers, which start after the kubelet, are the only programs of others",
    ),
    _rancher("k3s", "k3s", ("k3s.service", "k3s-agent.service"), ("usr/local/bin/k3s", "usr/bin/k3s", "bin/k3s")),
    _rancher("RKE2", "rke2", ("rke2-server.service", "rke2-agent.service"), ("usr/local/bin/rke2", "usr/bin/rke2")),
    KubernetesDistribution(
        "MicroK8s",
        "`/var/snap/microk8s/current/args/kubelet`, a flag on each line",
        ("var/snap/microk8s/current",),
        arguments="/var/snap/microk8s/current/args/kubelet",
        variables=(("${SNAP_DATA}", "/var/snap/microk8s/current"), ("${SNAP_COMMON}", "/var/snap/microk8s/common")),
        runtime="/var/snap/microk8s/common/run/containerd.sock",
        containerd="/var/snap/microk8s/current/args/containerd.toml",
        units=("snap.microk8s.daemon-containerd.service",),
        restart="snap restart microk8s.daemon-kubelite",
    ),
    KubernetesDistribution(
        "Canonical Kubernetes (k8s-snap)",
        "`/var/snap/k8s/common/args/kubelet`, a flag on each line",
        ("var/snap/k8s/common",),
        arguments="/var/snap/k8s/common/args/kubelet",
        units=("snap.k8s.containerd.service",),
        restart="snap restart k8s.kubelet",
        remark="bootstrap and join take `extra-node-kubelet-args` for new nodes",
    ),
    KubernetesDistribution(
        "EKS (nodeadm, AL2023)",
        "`NodeConfig` in the instance's user data: `spec.kubelet.config`, `spec.kubelet.flags`",
        ("etc/eks/kubelet", "usr/bin/nodeadm"),
        rewritten=("/etc/eks/*", "/etc/kubernetes/kubelet/*"),
        restart="reboot the node, or replace it by one of the new user data",
        remark="nodeadm writes the files at each boot; keep its `kubeReserved`, and with its `kubeReservedCgroup` set "
        "no `reservedSystemCPUs`",
    ),
    KubernetesDistribution(
        "kubespray",
        "the inventory: `kubelet_custom_flags`, `kubelet_config_extra_args`",
        ("etc/kubernetes/kubelet.env",),
        remark="a change on the node holds until the playbook runs again",
    ),
    KubernetesDistribution(
        "kubeadm",
        "`KUBELET_EXTRA_ARGS` or `/var/lib/kubelet/config.yaml`, [in this order](kubelet.md)",
        ("var/lib/kubelet/kubeadm-flags.env", "var/lib/kubelet/instance-config.yaml"),
        "made-up root with the files of its packages; containerd in tests; played",
        remark="`kubeadm upgrade` writes the endpoint of the node's annotation again",
        is_noted=False,
    ),
)
PLAIN: Final = KubernetesDistribution("", "the kubelet's unit and configuration", is_noted=False)


def known_by(found: Sequence[str], os_id: str) -> KubernetesDistribution:
    """Return the distribution of which one of these signs is there, or this id of os-release."""
    return next(
        # In the order of the table: kubespray uses kubeadm, whose files are there too.
        (each for each in DISTRIBUTIONS if (os_id and each.os_id == os_id) or not {*each.signs}.isdisjoint(found)),
        PLAIN,
    )
