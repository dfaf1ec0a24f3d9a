"""Read the verbose ``info`` of a runtime's status replies: JSON of the runtime's own, so of any shape. Pure.

containerd and CRI-O give one JSON object under "info". containerd's has ``config`` as the kubelet sent it (a
ContainerConfig or a PodSandboxConfig, with the field names of CRI) and ``runtimeSpec`` as the OCI runtime got it. CRI-O
keeps no ``config``.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from cri_proxy.cri.device_names.names import MAX_NAMES
from cri_proxy.cri.device_sources import cdi_names
from cri_proxy.cri.proto import cri_v1_pb2 as pb

# Above what a runtime can say of a pod: the API server keeps no object of more than 1.5 MiB, which is there twice.
MAX_INFO_CHARACTERS: Final = 8 << 20
_DIGITS: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)


def info_of(info: Mapping[str, str]) -> Mapping[str, object]:
    """Parse the verbose part; {} for anything but one JSON object of at most ``MAX_INFO_CHARACTERS``."""
    text = info.get("info", "")
    if len(text) > MAX_INFO_CHARACTERS:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def fields_at(value: object, *path: str) -> Mapping[str, object]:
    """Return the JSON object at this path; {} where there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def number_in(fields: Mapping[str, object], key: str) -> int:
    """Return this field as a number of 64 bits, which protobuf's JSON writes as text; 0 for anything else."""
    value = fields.get(key)
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    limit = 1 << 63
    return value if isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit else 0


def text_in(fields: Mapping[str, object], key: str) -> str:
    """Return this field as a text, '' for anything else."""
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def known_cdi_names(info: Mapping[str, object], annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return the CDI devices that the kubelet asked for, sorted: of ``config``, and of the container's annotations."""
    config = pb.ContainerConfig(annotations={k: v for k, v in annotations.items() if k.startswith("cdi.k8s.io/")})
    for device in islice(_list(fields_at(info, "config"), "CDI_devices"), MAX_NAMES):
        config.CDI_devices.add(name=text_in(fields_at(device), "name"))
    return cdi_names(config)[:MAX_NAMES]


def has_variable(info: Mapping[str, object], prefix: str) -> bool:
    """Return whether the process has an environment variable with this prefix, its author unknown."""
    variables = _list(fields_at(info, "runtimeSpec", "process"), "env")
    return any(isinstance(each, str) and each.startswith(prefix) for each in variables)


def pod_figures(info: Mapping[str, object]) -> pb.LinuxContainerResources:
    """Return the CPU figures of the whole pod, as its sandbox was given them; none where they are not kept."""
    found = fields_at(info, "config", "linux", "resources")
    period, quota, shares = (number_in(found, f"cpu_{name}") for name in ("period", "quota", "shares"))
    return pb.LinuxContainerResources(cpu_period=period, cpu_quota=quota, cpu_shares=shares)


def _list(fields: Mapping[str, object], key: str) -> Sequence[object]:
    value = fields.get(key)
    return value if isinstance(value, list) else ()
