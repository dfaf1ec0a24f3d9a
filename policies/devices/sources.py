"""Join what the sources of a node list: which names of cost files are devices, or virtual functions, of the inventory.

Sources are joined by the identities that they tell (``policies.devices.identity``), the strongest first. One piece of
hardware is one piece here, under however many names it is listed. What two sources state differently is found. Pure.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Final

from policies.device_grants import WHOLE, DeviceGrant, DeviceKey, listed_only
from policies.devices.device_types import GPU, NIC, RDMA
from policies.devices.identity import (
    ProvedDevice,
    address_in,
    gpu_part,
    identities_held,
    identities_named,
    identities_of,
    kind_of_proof,
    strength,
    uuid_in,
)
from policies.devices.model import EMPTY_INVENTORY, VF_UNITS, DeviceInventory, InventoryDevice, Statement
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.text import numbered

_ROOT_COMPLEX: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A piece of hardware: a device of the inventory or, with ``vf``, a virtual function of it; None: of neither.

    ``names`` are those of cost files, in their order, ``identities`` all that it is known by.
    """

    device: InventoryDevice | None
    vf: str = ""
    names: tuple[str, ...] = ()
    identities: frozenset[str] = frozenset()

    def overlaps(self, other: "Piece") -> bool:
        """Return whether no container can have both: they are the same, or one is a virtual function of the other."""
        if self is other or self.device is None or other.device is None:
            return self is other
        return self.device.key == other.device.key and (self.vf == other.vf or not self.vf or not other.vf)

    def __str__(self) -> str:
        if self.device is None:
            return self.names[0]
        if self.vf and self.device.kind == GPU:
            return f"part {self.vf} of {self.device.kind} {self.device.minor}"
        return f"VF {self.vf}" if self.vf else f"{self.device.kind} {self.device.minor}"


class JoinedDevices:
    """The pieces of hardware behind an inventory and its cost files; worked out when they are first asked for."""

    def __init__(
        self, inventory: DeviceInventory = EMPTY_INVENTORY, cpus: Mapping[int, CpuSet] = MappingProxyType({})
    ) -> None:
        """Join what this inventory lists, with its cost files. ``cpus`` are those of each NUMA node that has any."""
        self.inventory: Final = inventory
        self._cpus: Final = cpus

    def named(self, name: str) -> Piece:
        """Return the piece with this name of a cost file."""
        return self._by_identity.get(name) or Piece(None, "", (name,), frozenset(identities_named(name)))

    def meant(self, name: str, proofs: Sequence[ProvedDevice] = ()) -> tuple[Piece, ...]:
        """Return the pieces behind a name in the form of cost files, which need not list it.

        ``proofs`` are what it is of by files of the node: a number, or a name of others, proves nothing beside them,
        as drivers and inventories may count differently.

        >>> gpus = JoinedDevices(DeviceInventory((InventoryDevice("gpu", 0, uuid="GPU-5a", parts=("MIG-5a",)),)))
        >>> names = ("GPU-5a", "gpu0", "1", "0:1", "MIG-5A", "MIG-7c")
        >>> [[str(piece) for piece in gpus.meant(f"nvidia.com/gpu/{name}")] for name in names]
        [['gpu 0'], ['gpu 0'], [], ['part 0:1 of gpu 0'], ['part MIG-5A of gpu 0'], []]
        """
        told, part = identities_named(name), gpu_part(name)
        text = name.rpartition("/")[2] if part is None else part.name
        if part is not None:
            if whole := next(filter(None, map(self._by_identity.get, told)), None):
                return (whole,)  # it is listed as a device of its own
            listed = (each for each in self.inventory.devices if text.lower() in map(str.lower, each.parts))
            told = next(map(identities_of, listed), (part.parent,))
        found = self._told(told, proofs)
        if part is None and not any(proof.is_part for proof in proofs):
            return found
        gpus = (piece.device for piece in found if piece.device is not None and piece.device.kind == GPU)
        return tuple(Piece(gpu, text) for gpu in gpus)

    def _told(self, told: Sequence[str], proofs: Sequence[ProvedDevice]) -> tuple[Piece, ...]:
        """Return the pieces with these identities: by those that prove it themselves, by the proofs, by the others."""
        here = [(each, piece) for each in told if (piece := self._by_identity.get(each)) is not None]
        if exact := [piece for each, piece in here if kind_of_proof(each) in ("address", "uuid")]:
            return (exact[0],)
        # Before names and numbers: a CDI name with a number is of the GPU whose device node its specification has.
        behind = (next(filter(None, map(self._by_identity.get, each.identities)), None) for each in proofs)
        known = dict.fromkeys(piece for piece in behind if piece is not None)
        if found := tuple(piece for piece in known if here or not _may_be_shared(piece)):
            return found
        # No proof has matched: a piece that has an identity of the same kind as a proof is other hardware.
        kinds = {kind_of_proof(identity) for proof in proofs for identity in proof.identities}
        return tuple(piece for _, piece in here if kinds.isdisjoint(map(kind_of_proof, piece.identities)))[:1]

    def behind(self, proofs: Sequence[ProvedDevice]) -> tuple[Piece, ...]:
        """Return the pieces that files of the node prove to be behind something without a name of its own."""
        return self._told((), proofs)

    def held(self, grant: DeviceGrant) -> tuple[Piece, ...]:
        """Return the pieces that are here by which the device of this grant is or was known.

        They are several where sources have changed names or numbers since: each may be the one that is held.
        """
        found = (self._by_identity.get(identity) for identity in identities_held(grant))
        return tuple(dict.fromkeys(piece for piece in found if piece is not None))

    def likely(self, grant: DeviceGrant) -> Piece | None:
        """Return the piece that is meant most likely, by address or identifier where these are known of both."""
        told = sorted(identities_held(grant), key=strength)
        pieces = [(identity, piece) for identity in told if (piece := self._by_identity.get(identity)) is not None]
        is_proved = bool(told) and not strength(told[0])
        for identity, piece in pieces:
            # Where both have a proof, it has not matched: the number is another device's by now.
            if not strength(identity) or not is_proved or all(map(strength, piece.identities)):
                return piece
        return None

    def likely_here(self, grant: DeviceGrant) -> DeviceGrant | None:
        """Return the grant as one of the device that is meant most likely; None where an inventory's is gone."""
        piece = self.likely(grant)
        if piece is None:
            # A virtual function that its device does not list (any more) is one of it still.
            is_part = bool(grant.vf) and f"{grant.kind} {grant.minor}" in self._by_identity
            return grant if is_part or isinstance(grant.minor, str) else None
        if piece.device is None:
            # Cost files list whole instances: there a VF is all of one.
            amount = WHOLE if grant.vf else grant.amount
            return replace(listed_only(piece.names[0]), amount=amount, is_given=grant.is_given)
        return self._as(grant, piece)

    def of_inventory(self, grants: Iterable[DeviceGrant]) -> tuple[DeviceGrant, ...]:
        """Return these grants as grants of every device of the inventory that may be meant.

        One of another device stays as it is.

        >>> from policies.devices.model import PciePath
        >>> nic = InventoryDevice("rdma", 1, path=PciePath(bus="0000:51:00.0"))
        >>> found = JoinedDevices(DeviceInventory((nic,))).of_inventory([listed_only("a.com/nic/0000:51:00.0")])
        >>> [str(grant) for grant in found]
        ['rdma 1']
        """
        return tuple(here for grant in grants for here in self._here(grant))

    def _here(self, grant: DeviceGrant) -> Iterator[DeviceGrant]:
        if not grant.known_as and not grant.cost_name:  # known by its number, or its VF's address, alone
            owner = self._owners.get(address_in(grant.vf) or grant.vf) if grant.vf else None
            owner = owner or self._by_former_key.get(grant.key)
            yield grant if owner is None else _of(grant, owner)
            return
        found = [piece for piece in self.held(grant) if piece.device is not None]
        # Each of several may be the one that is held, so that none of them counts as free.
        yield from (self._as(grant, piece) for piece in found)
        if not found:
            yield grant

    def _as(self, grant: DeviceGrant, piece: Piece) -> DeviceGrant:
        device, vf = piece.device, piece.vf
        if device is None or (device.key, vf) == (grant.key, grant.vf):
            return grant
        amount = VF_UNITS if vf else WHOLE if grant.vf or grant.cost_name else grant.amount
        return replace(_of(grant, device), amount=amount, vf=vf)

    def granted(self, name: str) -> DeviceGrant:
        """Return what a container holds that gets the device of this name as a whole."""
        piece = self.named(name)
        listed_as = "" if piece.device is None else name
        return self._identified(replace(_whole(piece, name), listed_as=listed_as), piece)

    def given(self, piece: Piece) -> DeviceGrant:
        """Return what a container holds that others have given this piece to."""
        return replace(self._identified(_whole(piece, *piece.names[:1]), piece), is_given=True)

    def identified(self, grant: DeviceGrant) -> DeviceGrant:
        """Return a grant of the inventory with the other identities by which its device is known now."""
        own = self._by_identity.get(identities_held(grant)[0])
        return grant if own is None else self._identified(grant, own)

    def _identified(self, grant: DeviceGrant, piece: Piece) -> DeviceGrant:
        others = piece.identities.difference(identities_held(replace(grant, known_as=())))
        # In order, so that equal nodes write equal records.
        return replace(grant, known_as=tuple(sorted(others))) if others else grant

    @cached_property
    def _owners(self) -> Mapping[str, InventoryDevice]:
        """The devices by the addresses of their virtual functions."""
        vfs = ((vf.bus, device) for device in self.inventory.devices for group in device.vf_groups for vf in group.vfs)
        return {address_in(bus) or bus: device for bus, device in vfs}

    @cached_property
    def _by_former_key(self) -> Mapping[DeviceKey, InventoryDevice]:
        """The devices by types and minors that they had before."""
        return {key: device for device in self.inventory.devices for key in device.formerly}

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """All pieces: those of the inventory, then those that cost files alone list."""
        return tuple(dict.fromkeys(self._by_identity.values()))

    @cached_property
    def gpu_names(self) -> Mapping[int, str]:
        """The first name in the cost files of each GPU of the inventory that has any, by its minor."""
        gpus = (piece for piece in self.pieces if piece.names and not piece.vf)
        return {p.device.minor: p.names[0] for p in gpus if p.device is not None and p.device.kind == GPU}

    @cached_property
    def is_one_to_one(self) -> bool:
        """Whether no two names of cost files are of one device."""
        named = [piece for piece in self.pieces if piece.names]
        keys = [piece.device.key for piece in named if piece.device is not None]
        return all(len(piece.names) == 1 for piece in named) and len(set(keys)) == len(keys)

    @cached_property
    def disagreements(self) -> tuple[str, ...]:
        """Devices that are listed as two, and statements of sources that differ: a sentence each."""
        return (*self._joined.problems, *(text for piece in self.pieces for text in self._disagreements(piece)))

    def _disagreements(self, piece: Piece) -> Iterator[str]:
        listed = piece.device.stated if piece.device is not None else ()
        if not piece.vf:
            yield from stated_apart(str(piece), listed)
        costs = [Statement(f"{name} of the cost files", self._near[name]) for name in piece.names if name in self._near]
        placed = next((each for each in listed if each.nodes), Statement(""))
        nodes = placed.nodes & NodeSet.of(self._cpus)  # costs say nothing about a node without CPUs
        if nodes:
            for each in costs:
                yield from stated_apart(str(piece), (Statement(placed.source, nodes), each))
        else:
            yield from stated_apart(str(piece), costs, "each counts under its name")

    @cached_property
    def _near(self) -> Mapping[str, NodeSet]:
        """Where cost files put the devices that another source, or another name, may put elsewhere."""
        shared = (piece for piece in self.pieces if piece.device is not None or len(piece.names) > 1)
        return self.inventory.costs.nearest_nodes([name for piece in shared for name in piece.names], self._cpus)

    @cached_property
    def _by_identity(self) -> Mapping[str, Piece]:
        return self._joined.by_identity()

    @cached_property
    def _joined(self) -> "_Joining":
        found = _Joining()
        for device in self.inventory.devices:
            found.add(device, "", identities_of(device))
            for vf in (vf for group in device.vf_groups for vf in group.vfs):
                found.add(device, vf.bus, (address_in(vf.bus) or vf.bus,))
        for name in (name for names in self.inventory.costs.devices.values() for name in names):
            found.add_name(name)
        return found


def _may_be_shared(piece: Piece) -> bool:
    """Return whether plugins give this to many containers: the verbs of a NIC, which its other users do not notice."""
    return piece.device is not None and piece.device.kind in (RDMA, NIC) and not piece.vf


def _whole(piece: Piece, name: str = "") -> DeviceGrant:
    """Return the grant of all of a piece, by this name where cost files alone list it."""
    if piece.device is None:
        return listed_only(name)
    return DeviceGrant(piece.device.kind, piece.device.minor, VF_UNITS if piece.vf else WHOLE, vf=piece.vf)


def _of(grant: DeviceGrant, device: InventoryDevice) -> DeviceGrant:
    """Return the grant as one of this device; resources of another type mean nothing of it."""
    resources = grant.resources if grant.kind == device.kind else ()
    return replace(grant, kind=device.kind, minor=device.minor, resources=resources)


@dataclass(slots=True)
class _Joining:
    """The pieces while they are joined, each as [device, VF, names, identities]; never leaves this module."""

    pieces: list[tuple[InventoryDevice | None, str, list[str], list[str]]] = field(default_factory=list)
    number_of: dict[str, int] = field(default_factory=dict)  # by identity
    problems: list[str] = field(default_factory=list)

    def add(self, device: InventoryDevice | None, vf: str, told: Iterable[str]) -> int:
        """Add a piece that is known by these identities; one that is another's already stays that one's."""
        number = len(self.pieces)
        self.pieces.append((device, vf, [], []))
        for identity in told:
            first = self.number_of.setdefault(identity, number)
            self.pieces[number][3].append(identity)
            if first != number:
                one, other = self._text(first), self._text(number)
                self.problems.append(f"{one} and {other} are both listed as {identity}: it counts as {one}")
        return number

    def add_name(self, name: str) -> None:
        """Add a name of the cost files to the piece that it names, the strongest identity first, or as a piece."""
        told = identities_named(name)
        known = list(dict.fromkeys(self.number_of[each] for each in told if each in self.number_of))
        number = known[0] if known else self.add(None, "", ())
        if len(known) > 1:
            one, other = map(self._text, known[:2])
            self.problems.append(f"{name} of the cost files names {one} and {other}: it counts as {one}")
        _, _, names, identities = self.pieces[number]
        names.append(name)
        identities += (each for each in told if self.number_of.setdefault(each, number) == number)

    def by_identity(self) -> dict[str, Piece]:
        """Return the pieces by each of their identities."""
        pieces = [Piece(device, vf, tuple(names), frozenset(told)) for device, vf, names, told in self.pieces]
        return {identity: pieces[number] for identity, number in self.number_of.items()}

    def _text(self, number: int) -> str:
        device, vf, names, _ = self.pieces[number]
        return str(Piece(device, vf, tuple(names)))


def stated_apart(named: str, statements: Sequence[Statement], counts: str = "the former counts") -> Iterator[str]:
    """Yield a sentence for each fact of a device in which a statement contradicts the first one with that fact.

    A statement with less facts than another one contradicts none. ``counts`` ends it: which of the two counts.
    """
    for fact, apart in ((_nodes, _nodes_apart), (_bridges, _paths_apart), (_gpu_uuid, _uuids_apart)):
        first, *others = [each for each in statements if fact(each)] or [Statement("")]
        for text in filter(None, (apart(first, other) for other in others)):
            yield f"{named}: {text}; {counts}"


def _nodes(statement: Statement) -> NodeSet:
    return statement.nodes


def _nodes_apart(first: Statement, other: Statement) -> str:
    if first.nodes & other.nodes:
        return ""
    here, there = (numbered("NUMA node", each.nodes) for each in (first, other))
    return f"{first.source} puts it at {here}, {other.source} at {there}"


def _paths_apart(first: Statement, other: Statement) -> str:
    """Whole paths are those with a root complex. One that names bridges of a whole path may leave out others."""
    here, there = _bridges(first), _bridges(other)
    if not other.path.root or {*here} <= {*there, address_in(other.path.bus)}:
        return ""
    return f"{first.source} puts it below {' '.join(here)}, {other.source} below {' '.join(there)}"


def _bridges(statement: Statement) -> tuple[str, ...]:
    """Return the root complex, bridges and switches above a device that have names of the kernel's."""
    path = statement.path
    names = (path.root, *path.switches, statement.pcie)
    found = (address_in(name) or (name.lower() if _ROOT_COMPLEX.fullmatch(name.lower()) else "") for name in names)
    return tuple(dict.fromkeys(name for name in found if name))


def _uuids_apart(first: Statement, other: Statement) -> str:
    """The beginning of an identifier is short for it; that of a MIG device is not its GPU's."""
    one, two = _gpu_uuid(first), _gpu_uuid(other)
    is_same = one.startswith(two) or two.startswith(one)
    return "" if is_same else f"{first.source} lists it as {first.uuid}, {other.source} as {other.uuid}"


def _gpu_uuid(statement: Statement) -> str:
    found = uuid_in(statement.uuid)
    return "" if found.startswith("mig") else found.removeprefix("gpu")
