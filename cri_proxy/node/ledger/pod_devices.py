"""Devices that a pod keeps: what its containers had when they ended, until its sandbox stops."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from cri_proxy.state.rows import Row
from policies.device_grants import DeviceHolding
from policies.devices import HeldHardware, JoinedDevices


def kept(ended: Iterable[Row], stopped: Collection[str]) -> Iterator[DeviceHolding]:
    """Yield what is held of the devices of ended containers; ``stopped`` are sandboxes.

    The kubelet keeps a pod's devices in the same way: the next attempt gets them, or another container of the pod, such
    as the one after an init container.
    """
    for row in ended:
        if row.sandbox_id not in stopped:
            yield DeviceHolding(f"{row.name} (ended, kept for its pod)", row.grant.devices, row.key.pod_uid)


def handed_on(new: Row, before: Iterable[Row], rows: Iterable[Row], joined: JoinedDevices) -> tuple[Row, ...]:
    """Return those of ``rows`` that ended in the new one's pod and had devices that it has, without these devices.

    ``before`` has its own earlier attempt, if there was one: devices of that come from no other container.
    """
    had = [device for row in before if row.key == new.key for device in row.grant.devices]
    taken = [device for device in new.grant.devices if device not in had]
    if not taken:
        return ()
    hardware, changed = HeldHardware(joined, taken), list[Row]()
    for row in rows:
        if row.state != "exited" or row.key.pod_uid != new.key.pod_uid:
            continue
        # A device of the pod is held once: by the container that has it now.
        left = tuple(device for device in row.grant.devices if not hardware.overlap(device))
        if left != row.grant.devices:
            changed.append(replace(row, grant=replace(row.grant, devices=left)))
    return tuple(changed)
