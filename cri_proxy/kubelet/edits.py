"""``Edit``: one change of a file or command line of the kubelet, which a remedy names and a program can apply. Pure."""

import re
from dataclasses import dataclass
from typing import Final

from cri_proxy.kubelet.settings import ENFORCED, Setting

_NUMERIC: Final = re.compile(r"[\d.,:_-]+")

ARG: Final = "kubelet-arg "
"""Begins the key of a flag in a list of a distribution's own configuration."""
UNNAMED: Final = "the kubelet's configuration"
"""The place of an edit where no file of the kubelet is known."""


@dataclass(frozen=True, slots=True)
class Edit:
    """``key`` gets ``value`` in this place, None takes it away; without a key the file itself is deleted.

    A key with dashes is a flag: of a file that holds a command line, or, with a ``process`` as place, of its own one.
    One that begins with ``kubelet-arg`` is an element of that list in a distribution's own configuration.
    """

    place: str
    key: str = ""
    value: str | None = None

    def __str__(self) -> str:
        """Return the change as a part of a sentence.

        >>> str(Edit("/k.yaml", "cpuManagerPolicy", "none")), str(Edit("/k.env", "--cpu-manager-policy"))
        ('set cpuManagerPolicy: none in /k.yaml', 'remove --cpu-manager-policy from /k.env')
        >>> str(Edit("/etc/rancher/k3s/config.yaml", "kubelet-arg cpu-manager-policy", "none"))
        'set kubelet-arg cpu-manager-policy=none in /etc/rancher/k3s/config.yaml'
        >>> str(Edit("/var/lib/kubelet/cpu_manager_state"))
        'delete /var/lib/kubelet/cpu_manager_state'
        """
        if not self.key:
            return f"delete {self.place}"
        if self.place.startswith("process "):
            return f"start the kubelet {f'without {self.key}' if self.value is None else f'with {self._pair}'}"
        return f"remove {self.key} from {self.place}" if self.value is None else f"set {self._pair} in {self.place}"

    @property
    def _pair(self) -> str:
        name, _, entry = self.key.partition(".")
        if not self.key.startswith(("--", ARG)):
            return f"{self.key}: {self._in_yaml}"
        return f"{name}={entry}={self.value}" if entry else f"{name}={self.value}"

    @property
    def _in_yaml(self) -> str:
        """Return the value as YAML needs it: the kubelet takes no number where its type has text."""
        if self.key == ENFORCED:
            return f"[{self.value}]"
        return f'"{self.value}"' if _NUMERIC.fullmatch(self.value or "") else str(self.value)


def edit_at(where: str, key: str, value: str | None) -> Edit:
    """Return the edit of a key in the place that a setting names, which may be a flag of it.

    An entry of a mapping has its name behind a dot, in a flag too.

    >>> edit_at("/k.env, --cpu-manager-policy", "cpuManagerPolicy", "none")
    Edit(place='/k.env', key='--cpu-manager-policy', value='none')
    >>> str(edit_at("/k.env, --kube-reserved", "kubeReserved.cpu", "500m"))
    'set --kube-reserved=cpu=500m in /k.env'
    """
    place, _, flag = where.partition(", --")
    entry = key[key.index(".") :] if "." in key else ""
    return Edit(place, f"--{flag}{entry}" if flag else key, value)


def edit_of(setting: Setting, value: str | None) -> Edit:
    """Return the edit that gives this setting another value where it stands."""
    return edit_at(setting.where, setting.key, value)
