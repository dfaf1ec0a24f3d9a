"""Poll the kubelet for GPUs and FPGAs that plugins have registered: CPUs beside them are left to work with devices.

Source: GetAllocatableResources of the kubelet's pod resources API v1, which has healthy devices alone. A plugin may
offer parts of a device: those whose ids tell the same PCI address or identifier, or are numbered, are one device.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Final

from google.protobuf.message import DecodeError

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.cri.annotations.device_filter import POD_RESOURCES
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.file_workers import FilesFailed
from cri_proxy.kubelet.pod_resources import SERVICE
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.runtime.channel import RuntimeChannel
from policies.devices import GPU, VENDOR_OF, VENDORS, RegisteredDevice, address_in, natural_order, type_named, uuid_in

POLL_SECONDS: Final = 60.0
"""Plugins register when they start, and report a device that fails or comes back; for CPUs a minute is soon enough."""
ANSWER_SECONDS: Final = 5.0
_ALLOCATABLE: Final = f"{SERVICE}GetAllocatableResources"
_KINDS: Final = (GPU, "fpga")
_NAMED: Final = re.compile(
    r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|(?:GPU-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    re.ASCII | re.IGNORECASE,
)
_PART: Final = re.compile(r"::\d+$|(?<=\d)-\d+$", re.ASCII)
"""``GPU-…::3`` and ``0::1`` of NVIDIA's plugin, ``card0-3`` of Intel's."""


class RegisteredDevices:
    """The kubelet's last answer about its plugins' devices; nothing before the first."""

    def __init__(
        self,
        channel: RuntimeChannel,
        clock: Clock,
        journal: Journal,
        *,
        is_asked: Callable[[], bool],
        look: Callable[[], Awaitable[object]],
    ) -> None:
        """``channel`` leads to the kubelet; ``look`` is awaited before each question, as in ``PodResources``."""
        self._channel, self._clock, self._journal = channel, clock, journal
        self._is_asked, self._look = is_asked, look
        self._is_reported = False
        self.devices: tuple[RegisteredDevice, ...] = ()

    async def watch(self, take: Callable[[], Awaitable[None]]) -> None:
        """Ask at once and every minute, until cancelled; ``take`` is called for each change."""
        while True:
            if await self.ask():
                await take()
            await self._clock.sleep(POLL_SECONDS)

    async def ask(self) -> bool:
        """Ask once; return whether other devices are registered now.

        While the kubelet does not answer, what it said last holds, and where it may not be asked nothing does.
        """
        before = self.devices
        if not self._is_asked():
            self.devices = ()
            return before != ()
        try:
            await self._look()
            message = pb.AllocatableResourcesRequest().SerializeToString()
            answer = await self._channel.unary(_ALLOCATABLE, message, timeout_seconds=ANSWER_SECONDS)
            self.devices = registered_devices(pb.AllocatableResourcesResponse.FromString(answer))
        except (CallFailed, RuntimeUnavailable, FilesFailed, DecodeError) as error:
            if not self._is_reported:  # it is asked each minute
                why = error.problem if isinstance(error, RuntimeUnavailable) else str(error)
                self._journal.noted(events.POD_RESOURCES_AWAY, reason=f"the kubelet does not tell its devices: {why}")
            self._is_reported = True
            return False
        self._is_reported = False
        return self.devices != before

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()


def registered_devices(offered: pb.AllocatableResourcesResponse) -> tuple[RegisteredDevice, ...]:
    """Return the devices that compute among these, by node and name; without those that are on no one node."""
    names: dict[tuple[int, str], list[tuple[str, str, str]]] = {}
    for group in offered.devices:
        nodes = sorted({node.ID for node in group.topology.nodes})
        if len(nodes) != 1 or type_named(group.resource_name) not in _KINDS:
            continue
        for name in group.device_ids:
            told = _NAMED.search(name)
            identity = (address_in(told[0]) or uuid_in(told[0])) if told is not None else ""
            one = identity or f"{group.resource_name}/{_PART.sub('', name)}"
            row = group.resource_name, f"{POD_RESOURCES}{group.resource_name}/{name}", identity
            names.setdefault((nodes[0], one), []).append(row)
    found = [
        RegisteredDevice(node, tuple(name for _, name, _ in rows), rows[0][2], _vendor(rows[0][0]))
        for (node, _), rows in names.items()
    ]
    return tuple(sorted(found, key=lambda device: (device.numa, natural_order(device.names[0]))))


def _vendor(resource: str) -> str:
    """Return the vendor that a resource names; '' for one that has no row here."""
    words = resource.partition("/")[0].split(".")
    named = (vendor.name for vendor in VENDORS if vendor.name in words)
    return VENDOR_OF.get(resource) or next(named, "")
