"""What docs/costs.md promises of devices, at any moment and once all is settled.

A container is told its devices when it is created, in its environment and in the annotation with its grant; neither
changes afterwards. What it was told is compared with what the ledger says that it has.
"""

from collections import Counter
from collections.abc import Sequence

from cri_proxy.cri.annotations.pod import GRANT_KEY
from cri_proxy.cri.grant_text import grant_parts_from_text
from cri_proxy.cri.write import DEVICES_VARIABLE
from cri_proxy.node.ledger.ledger import ACTIVE, Ledger
from cri_proxy.runtime.embedded.state import Container
from policies.device_grants import cost_names
from policies.device_requests import DeviceAmount
from policies.devices.costs import type_of
from tests.fakes.scripted_runtime import ScriptedRuntime


def told(container: Container) -> tuple[str, ...]:
    """The devices in a container's environment, which are those in its annotation."""
    values = [env.value.decode() for env in container.config.envs if env.key == DEVICES_VARIABLE]
    assert len(values) <= 1, f"{container.name} is told twice what it has: {values}"
    devices = tuple(values[0].split(",")) if values else ()
    text = container.config.annotations.get(GRANT_KEY, "")
    granted = cost_names(grant_parts_from_text(text).devices) if text else ()
    assert devices == granted, f"{container.name} is told {devices}, and its annotation says {granted}"
    return devices


def amounts_of(devices: Sequence[str]) -> tuple[DeviceAmount, ...]:
    """How many of each type these are."""
    counts = Counter(map(type_of, devices))
    return tuple(DeviceAmount(kind, counts[kind]) for kind in sorted(counts))


class DeviceCheck:
    """What each container of a runtime was told; ``given`` has all that there ever were, as far as it looked."""

    def __init__(self, runtime: ScriptedRuntime) -> None:
        self._runtime = runtime
        self._told: dict[str, tuple[str, ...]] = {}
        self._last: dict[str, tuple[str, str]] = {}  # the sandbox and the name of each device's last holder
        self.given: dict[tuple[str, str, int], tuple[str, ...]] = {}  # by pod uid, container, attempt

    def look(self, ledger: Ledger) -> None:
        """No device has two holders, and whoever was told of some holds these and no others.

        One that was created and not started holds none once it has lost its place.
        """
        holders: dict[str, tuple[str, str]] = {}
        for container in self._live():
            devices = self._of(container)
            row = ledger.holder(container.id)
            if not container.running and (row is None or row.state not in ACTIVE):
                continue
            its = devices if row is None else cost_names(row.grant.devices)
            assert its == devices, f"{container.name} has {its}, not {devices}"
            attempts = (container.sandbox_id, container.config.metadata.name)  # one has those of the one before it
            for device in [device for device, last in self._last.items() if last == attempts and device not in devices]:
                del self._last[device]  # it could not be had again, and others were chosen
            for device in devices:
                self._stays_with_its_pod(device, attempts)
                assert holders.setdefault(device, attempts) == attempts, (
                    f"{device} is {holders[device]}'s, {attempts}'s"
                )
        granted = Counter(device.key for row in ledger.active() for device in row.grant.devices)
        assert not [device for device, count in granted.items() if count > 1], f"granted twice: {granted}"

    def _stays_with_its_pod(self, device: str, holder: tuple[str, str]) -> None:
        """A container that ends leaves its devices to its pod, until that one's sandbox stops."""
        last = self._runtime.node.sandboxes.get(self._last.get(device, ("", ""))[0])
        assert last is None or last.id == holder[0] or not last.ready, f"{device} left the pod {last.name}"
        self._last[device] = holder

    def forget_pods(self) -> None:
        """The store is lost, and with it all that is known of ended containers."""
        self._last.clear()

    def look_settled(self, ledger: Ledger) -> None:
        """Nobody has devices that are not granted to it, nor other ones than it asks for."""
        self.look(ledger)
        for row in ledger.active():
            if row.grant.devices:
                assert amounts_of(cost_names(row.grant.devices)) == row.grant.request.preferences.devices.counts, (
                    row.key
                )
        live = self._live()
        newest = {(c.sandbox_id, c.config.metadata.name): c.id for c in live}
        for container in live:
            is_newest = newest[container.sandbox_id, container.config.metadata.name] == container.id
            granted = ledger.holder(container.id) is not None
            has_none = not is_newest or not container.running or not self._of(container)
            assert granted or has_none, f"{container.name}: {self._of(container)}"

    def held(self) -> frozenset[str]:
        """The devices of those that are there."""
        return frozenset(device for container in self._live() for device in self._of(container))

    def _live(self) -> list[Container]:
        return [c for c in self._runtime.node.containers.values() if c.state_name != "CONTAINER_EXITED"]

    def _of(self, container: Container) -> tuple[str, ...]:
        devices = self._told.get(container.id)
        if devices is None:
            devices = self._told[container.id] = told(container)
            uid = self._runtime.node.sandboxes[container.sandbox_id].config.metadata.uid
            metadata = container.config.metadata
            self.given[uid, metadata.name, metadata.attempt] = devices
        return devices
