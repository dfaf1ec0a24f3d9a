"""Answer RuntimeConfig for a runtime that does not know it, as containerd before 2.0: the cgroup driver.

Kubelets from 1.38 on do not start without an answer; those before take ``cgroupDriver`` of their own configuration.

The verbose ``Status`` of containerd 1.x has its CRI plugin's configuration as JSON under "config":
``containerd.defaultRuntimeName``, ``containerd.runtimes.NAME`` with ``runtimeType`` and ``options``. Of these runc's
shims read ``SystemdCgroup``, false where it is missing (docs/cri/config.md of containerd). The order of runtimes is
that in which containerd 2.0 looks for its answer: the default one, then by name.
"""

import json
from typing import Final

from google.protobuf.message import DecodeError

from cri_proxy import events
from cri_proxy.cri.methods import RUNTIME
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.status_fields import fields_at, text_in
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.node.context import Context

_ASK_SECONDS: Final = 2.0  # the kubelet waits 2 minutes, and asks three times
_RUNC: Final = ("io.containerd.runc.v1", "io.containerd.runc.v2")
_V1_RUNTIME: Final = "io.containerd.runtime.v1.linux"


async def runtime_config(context: Context) -> bytes | None:
    """Return the reply's bytes; None where the runtime does not report its configuration, or no driver in it."""
    asked = pb.StatusRequest(verbose=True).SerializeToString()
    try:
        reply = await context.channel.unary(RUNTIME + "Status", asked, timeout_seconds=_ASK_SECONDS)
        is_systemd = uses_systemd(pb.StatusResponse.FromString(reply).info.get("config", ""))
    except (CallFailed, RuntimeUnavailable, DecodeError):
        is_systemd = None
    if is_systemd is None:
        context.journal.noted(
            events.RUNTIME_CONFIG, reason="the runtime does not report its cgroup driver: not answered"
        )
        return None
    driver = pb.SYSTEMD if is_systemd else pb.CGROUPFS
    context.journal.noted(events.RUNTIME_CONFIG, driver=pb.CgroupDriver.Name(driver).lower())
    linux = pb.LinuxRuntimeConfiguration(cgroup_driver=driver)
    return pb.RuntimeConfigResponse(linux=linux).SerializeToString()


def uses_systemd(config: str) -> bool | None:
    """Return whether containers get systemd scopes; None where the configuration names no runtime that tells.

    >>> uses_systemd('{"containerd": {"runtimes": {"runc": {"runtimeType": "io.containerd.runc.v2"}}}}')
    False
    >>> uses_systemd("{}") is None
    True
    """
    try:
        found = json.loads(config) if config else {}
    except (ValueError, RecursionError):
        return None
    containerd = fields_at(found, "containerd")
    runtimes, default = fields_at(containerd, "runtimes"), text_in(containerd, "defaultRuntimeName") or "runc"
    # In the order in which containerd 2.0 looks for its answer.
    for name in sorted(runtimes, key=lambda name: (name != default, name)):
        kind = text_in(fields_at(runtimes, name), "runtimeType")
        if kind in _RUNC:
            return fields_at(runtimes, name, "options").get("SystemdCgroup") is True
        if kind == _V1_RUNTIME:
            return fields_at(found).get("systemdCgroup") is True
    return None
