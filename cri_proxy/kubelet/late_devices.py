"""Hold the devices of running containers that the kubelet names only later, or of which a source names only later.

Its answer may not have come in time for their creation; and an inventory is written, or a GPU gets its identifier from
the driver, while pods run. Without this such a device would seem free as long as its container runs.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from cri_proxy.cri.device_names.names import NOTHING_TOLD, ToldDevices
from cri_proxy.cri.devices.names import NO_PROOFS, Proofs, needing_proof
from cri_proxy.cri.devices.plugin_devices import with_named
from cri_proxy.kubelet.pod_resources import SILENCE_SECONDS, PodResources
from cri_proxy.node.node import Node
from cri_proxy.node.sync.claims import ProofsOf
from policies.device_grants import DeviceGrant
from policies.devices import JoinedDevices

POLL_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 5.0
"""Of a new inventory is to be held what is in use, before pods ask for it; looking whether there is one is cheap."""


class LateDevices:
    """Compares what the kubelet has given to containers with what they hold."""

    def __init__(self, node: Node, kubelet: Callable[[], PodResources | None], proofs_of: ProofsOf) -> None:
        """``kubelet`` returns its client; None where the configuration in force leaves the kubelet alone."""
        self._context, self._coordinator, self._adoption = node.context, node.coordinator, node.adoption
        self._kubelet, self._proofs_of = kubelet, proofs_of
        self._seen: JoinedDevices | None = None
        self._is_silent = False  # the last question had no answer

    async def watch(self) -> None:
        """Look at once, every minute, and soon after other devices are listed or an answer came too late.

        A kubelet that does not answer here either is asked again after SILENCE_SECONDS.
        """
        clock = self._context.clock
        await self._coordinator.wait_ready()
        while True:
            await self.look()
            looked_at_seconds = clock.monotonic_seconds()
            await clock.sleep(LOOK_SECONDS)
            while not self._is_due(clock.monotonic_seconds() - looked_at_seconds):
                await clock.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Ask once, and hold what containers have and do not hold; without an answer nothing changes."""
        ledger = self._context.ledger
        # As of before the questions: an inventory that replaces it meanwhile is news.
        self._seen = ledger.policy.known
        kubelet = self._kubelet()
        if kubelet is None or not self._seen.pieces or not (ledger.active() or self._adoption.left()):
            return
        before = self._containers()
        told = {str(name): each for name, each in (await kubelet.of_all()).items()}
        self._is_silent = kubelet.has_missed and not told
        names = needing_proof(tuple(dict.fromkeys(name for each in told.values() for name, _ in each.cdi)))
        proofs = await self._proofs_of(names) if names else NO_PROOFS
        # No await from here on: rows and devices may be others than before the questions.
        now = self._containers()
        same = {name: each for name, each in told.items() if name in now and before.get(name) == now[name]}
        lacking = partial(self._lacking, same, proofs)
        for row in ledger.active():
            if row.container_id and (devices := lacking(str(row.name), row.grant.devices)):
                self._coordinator.learn_devices(row, devices)
        self._adoption.hold_late(lacking)

    def _is_due(self, waited_seconds: float) -> bool:
        kubelet = self._kubelet()
        most_seconds = POLL_SECONDS
        if kubelet is not None and kubelet.has_missed:
            most_seconds = SILENCE_SECONDS if self._is_silent else LOOK_SECONDS
        return waited_seconds >= most_seconds or self._seen is not self._context.ledger.policy.known

    def _containers(self) -> Mapping[str, str]:
        """Return the ids of containers by name, '' for those left alone or not created yet.

        None of two with one name: the kubelet tells no uid, and may list a pod that ends beside the next of its name.
        """
        found = [(str(row.name), row.container_id) for row in self._context.ledger.active()]
        found += [(left.name, "") for left in self._adoption.left()]
        counts = Counter(name for name, _ in found)
        return {name: container_id for name, container_id in found if counts[name] == 1}

    def _lacking(
        self, told: Mapping[str, ToldDevices], proofs: Proofs, name: str, holds: tuple[DeviceGrant, ...]
    ) -> tuple[DeviceGrant, ...]:
        """Return the devices that the kubelet has given to this container and that it does not hold, under any name."""
        has, joined = told.get(name, NOTHING_TOLD), self._context.ledger.policy.known
        is_watching = self._coordinator.config.lets_watch(name.partition("/")[0])
        # Claims of monitoring (adminAccess) have devices that others use; the kubelet does not tell which these are.
        claimed = () if is_watching else (each for each, _ in has.cdi)
        given = with_named((), claimed, joined, has.allocated, proofs)
        keys = {(device.key, device.vf) for device in holds}
        held = {piece for device in holds for piece in joined.held(device)}
        return tuple(each for each in given if (each.key, each.vf) not in keys and held.isdisjoint(joined.held(each)))
