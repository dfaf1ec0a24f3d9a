"""Say which of many grants are of hardware that others have, without comparing each with each. Pure."""

from collections.abc import Iterable

from policies.device_grants import DeviceGrant
from policies.devices.sources import JoinedDevices, Piece


class HeldHardware:
    """The hardware of some grants, under all names that it has."""

    def __init__(self, joined: JoinedDevices, grants: Iterable[DeviceGrant]) -> None:
        """Find the pieces of these grants among those that are joined."""
        grants = tuple(grants)
        self._joined = joined
        self._named = {(grant.key, grant.vf) for grant in grants}
        self._pieces = {piece for grant in grants for piece in joined.held(grant)}
        of_inventory = [(piece.device.key, piece.vf) for piece in self._pieces if piece.device is not None]
        self._parts = set(of_inventory)
        self._devices = {key for key, _ in of_inventory}

    def overlap(self, grant: DeviceGrant) -> bool:
        """Return whether this grant and one of those may be of the same hardware, or one of a part of the other's.

        Under whatever names they were given.

        >>> nics = HeldHardware(JoinedDevices(), [DeviceGrant("rdma", 1, 1, "0000:51:00.1")])
        >>> [nics.overlap(DeviceGrant("rdma", 1, 1, f"0000:51:00.{function}")) for function in (1, 2)]
        [True, False]
        """
        return (grant.key, grant.vf) in self._named or any(map(self._has, self._joined.held(grant)))

    def _has(self, piece: Piece) -> bool:
        if piece.device is None:
            return piece in self._pieces
        key = piece.device.key
        # A whole device overlaps each part of it; a part overlaps the whole and itself.
        if not piece.vf:
            return key in self._devices
        return (key, "") in self._parts or (key, piece.vf) in self._parts
