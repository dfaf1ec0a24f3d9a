"""How containers of this node get CDI devices: asks the runtime at start and after each of its restarts.

The operator may choose otherwise (option ``cdi``). Also watches what the runtime does not add: CDI devices that the
kubelet asks for pass unchanged, since they are between the two.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from cri_proxy import events
from cri_proxy.config.model import Config
from cri_proxy.cri.cdi.names import cdi_name
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.foreign_text import admit
from cri_proxy.node.context import Context
from cri_proxy.runtime.cdi_support import CdiSupport, CdiWay, support_of, way_of
from cri_proxy.runtime.channel import RuntimeChannel, ask
from cri_proxy.state.rows import Row
from policies.base import Grant
from policies.device_grants import cost_names
from sysfs.text import some

ASK_SECONDS: Final = 2.0  # for each of two calls; a container waits for them
PAUSE_SECONDS: Final = 10.0  # after a call without an answer: no other container waits meanwhile
_UNKNOWN: Final = CdiSupport(CdiWay.RESOLVE, "the runtime has not been asked yet")
_NAME_BYTES: Final = 200
_SHOWN: Final = 4
_BY: Final = {CdiWay.FIELD: "CRI's field", CdiWay.ANNOTATION: "an annotation"}


class RuntimeCdi:
    """The runtime's support of CDI, and the way that devices take to it."""

    def __init__(self, context: Context, config: Callable[[], Config]) -> None:
        """``config`` returns the options in force. Nothing is asked yet."""
        self._context = context
        self._config = config
        self._asking = asyncio.Lock()
        self._losses = -1  # of connections, when it was asked: one more, and it may be another version
        self._not_before_seconds = 0.0
        self.support = _UNKNOWN

    @property
    def way(self) -> CdiWay:
        """How containers get CDI devices, by what is known now."""
        return way_of(self._config().cdi, self.support)

    @property
    def adds_devices(self) -> bool:
        """Whether the runtime is known to add the CDI devices that a request names."""
        return self.support.way is not CdiWay.RESOLVE

    @property
    def ignores_devices(self) -> bool:
        """Whether the runtime is known to add none of them."""
        return not self.adds_devices and self._losses >= 0

    async def known_way(self) -> CdiWay:
        """Return the way after asking the runtime, if that is due and it answers."""
        await self.look()
        return self.way

    async def look(self) -> None:
        """Ask the runtime unless it was asked over the present connection; without an answer what was known stays."""
        # One question for all containers that are created at the same time.
        async with self._asking:
            # Before the question: a connection that is lost during it makes another one necessary.
            losses, now_seconds = self._context.channel.losses(), self._context.clock.monotonic_seconds()
            if losses == self._losses or now_seconds < self._not_before_seconds:
                return
            try:
                support = await support_by(self._context.channel)
            except (CallFailed, RuntimeUnavailable) as error:
                self._not_before_seconds = self._context.clock.monotonic_seconds() + PAUSE_SECONDS
                if self._losses < 0:
                    self.support = CdiSupport(CdiWay.RESOLVE, admit(f"the runtime did not answer: {error}"))
                return
            if support != self.support:
                self.support = support
                self._context.journal.noted(events.RUNTIME_CDI, way=self.way.value, reason=support.why)
            self._losses = losses

    def note_asked(self, row: Row, names: Sequence[str]) -> None:
        """Warn where a container is to get these CDI devices by the kubelet's request, and the runtime adds none."""
        if names and self.ignores_devices:
            self._context.journal.cdi_ignored(row, admit(", ".join(names), _NAME_BYTES), self.support.why)

    def text(self) -> str:
        """Return how containers get CDI devices, and why so."""
        choice = self._config().cdi
        done = "resolved by cri-proxy" if self.way is CdiWay.RESOLVE else f"added by the runtime, by {_BY[self.way]}"
        return f"{done} ({'' if choice == 'auto' else f'cdi is {choice}; '}{self.support.why})"

    def problems(self) -> tuple[str, ...]:
        """Return the problems that an operator should mend, a sentence each, with the remedy."""
        found: list[str] = []
        support, remedy = self.support, f"; {self.support.remedy}" if self.support.remedy else ""
        if self.ignores_devices and (without := self._without()):
            found.append(f"{without}: {support.why}{remedy}")
        if self._config().cdi == "runtime" and not self.adds_devices:
            found.append(f"cdi is runtime, and {support.why}{remedy}")
        if support.other_directories and self.way is not CdiWay.RESOLVE:
            there = admit(", ".join(support.other_directories), _NAME_BYTES)
            found.append(
                f"the runtime reads CDI specifications in {there}, and cri-proxy in /etc/cdi and /var/run/cdi; set "
                "cdi_spec_dirs of the runtime to these"
            )
        return tuple(found)

    def _without(self) -> str:
        """Return how many containers run without CDI devices, and which ones; '' = none."""
        lacks = {str(row.name): names for row in self._context.ledger.active() if (names := _lacked(row.grant))}
        if not lacks:
            return ""
        if len(lacks) == 1:
            ((who, names),) = lacks.items()
            return f"{who} was created without the CDI devices {admit(', '.join(names), _NAME_BYTES)} of the kubelet"
        return (
            f"{len(lacks)} containers were created without CDI devices of the kubelet ({some(sorted(lacks), _SHOWN)})"
        )


def _lacked(grant: Grant) -> tuple[str, ...]:
    """Return the CDI devices that a container lacks, without those that were chosen for it here as well."""
    chosen = {cdi_name(name) for name in cost_names(device for device in grant.devices if not device.is_given)}
    return tuple(name for name in grant.request.lacks if name not in chosen)


async def support_by(channel: RuntimeChannel) -> CdiSupport:
    """Ask the runtime for its version and configuration. Raises CallFailed and RuntimeUnavailable."""
    version = await ask(channel, pb.VersionRequest(), pb.VersionResponse.FromString, timeout_seconds=ASK_SECONDS)
    verbose, read = pb.StatusRequest(verbose=True), pb.StatusResponse.FromString
    status = await ask(channel, verbose, read, timeout_seconds=ASK_SECONDS)
    return support_of(
        admit(version.runtime_name, _NAME_BYTES),
        admit(version.runtime_version, _NAME_BYTES),
        status.info.get("config", ""),
    )
