"""The CDI names of the inventory's devices, and the devices behind CDI names and the kubelet's ids. Pure."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Self

from policies.device_grants import DeviceGrant
from policies.devices import (
    DEVICE_TYPES,
    GPU,
    RESOURCE_OF,
    DeviceInventory,
    InventoryDevice,
    JoinedDevices,
    Piece,
    ProvedDevice,
    address_in,
    uuid_in,
)

Proofs = Mapping[str, Sequence[ProvedDevice]]
"""The hardware behind CDI names, by name, as their specifications prove it."""
NO_PROOFS: Final[Proofs] = MappingProxyType({})

OWN_VENDOR: Final = "cri-proxy.io"
"""Of the kinds under which an operator may declare any device of the inventory."""
VF_KIND: Final = f"{OWN_VENDOR}/vf"
_ALL: Final = "all"
"""A device of the specifications that vendors' toolkits write: every GPU of theirs."""
_OF_VENDORS: Final = frozenset(RESOURCE_OF.values())
_SHARE: Final = "::"
_PART: Final = re.compile(rf"({'|'.join(DEVICE_TYPES)})-(\d{{1,6}})-(?:share-|vf-).*", re.ASCII)
"""Ids of our device plugin for parts of a device: shares, and virtual functions as it named them before."""
_FORMER_VF: Final = re.compile(rf"(.*/)(?:{'|'.join(DEVICE_TYPES)})-\d{{1,6}}-vf-(.*)", re.ASCII)
"""The kubelet's checkpoint has the former ids of virtual functions as long as their pods run."""


def names_of(grant: DeviceGrant, inventory: DeviceInventory) -> tuple[str, ...]:
    """Return the CDI names that may stand for a device, the best one first; of a VF only its own.

    >>> names_of(DeviceGrant("gpu", 0, 100), DeviceInventory((InventoryDevice("gpu", 0, uuid="GPU-5a"),)))
    ('nvidia.com/gpu=GPU-5a', 'nvidia.com/gpu=0', 'cri-proxy.io/gpu=0')
    >>> names_of(DeviceGrant("rdma", 1, 1, vf="0000:51:00.1"), DeviceInventory(()))
    ('cri-proxy.io/vf=0000:51:00.1',)
    """
    if grant.vf:
        return (f"{VF_KIND}={grant.vf}",)
    device = next((device for device in inventory.devices if device.key == grant.key), None)
    return _names(InventoryDevice(grant.kind, grant.number) if device is None else device)


def kinds_of(grant: DeviceGrant) -> frozenset[str]:
    """Return the kinds of the CDI names that a device may have; of a GPU those of all vendors: a grant tells none."""
    if grant.vf:
        return frozenset((VF_KIND,))
    vendors = _OF_VENDORS if grant.kind == GPU else frozenset[str]()
    return vendors | {f"{OWN_VENDOR}/{grant.kind}"}


def devices_named(names: Iterable[str], joined: JoinedDevices, proofs: Proofs = NO_PROOFS) -> tuple[DeviceGrant, ...]:
    """Return the devices that these CDI names are of, each once, as others chose them; other names are no matter.

    A name that its specification proves to be of a device is of it, whatever it says.

    >>> gpus = DeviceInventory((InventoryDevice("gpu", 0), InventoryDevice("gpu", 1)))
    >>> [str(grant) for grant in devices_named(["nvidia.com/gpu=1", "example.com/nic=a"], JoinedDevices(gpus))]
    ['gpu 1']
    """
    pieces = (piece for name in names for piece in _pieces(name, joined, proofs.get(name, ())))
    given = map(joined.given, dict.fromkeys(pieces))
    return tuple({(grant.key, grant.vf): grant for grant in given}.values())


def devices_allocated(names: Iterable[str], joined: JoinedDevices) -> tuple[DeviceGrant, ...]:
    """Return the devices that the kubelet has allocated by these names, RESOURCE/ID, as far as they are known here.

    Ids are what plugins make them: NVIDIA's are UUIDs, and ``UUID::2`` where several containers share a GPU; those of
    AMD's and of the SR-IOV network device plugin are PCI addresses, and of partitions of a GPU their names.

    >>> gpus = JoinedDevices(DeviceInventory((InventoryDevice("gpu", 0, uuid="GPU-5a"),)))
    >>> [(str(grant), grant.is_shared) for grant in devices_allocated(["nvidia.com/gpu/GPU-5a::2"], gpus)]
    [('gpu 0', True)]
    """
    found = {}
    for name in names:
        device, is_shared, _ = name.partition(_SHARE)
        for piece in joined.meant(_FORMER_VF.sub(r"\1\2", device)):
            grant = replace(joined.given(piece), is_shared=bool(is_shared))
            found[grant.key, grant.vf] = grant
    return tuple(found.values())


def source_of(name: str, joined: JoinedDevices) -> str:
    """Return the source of the place of a device that the kubelet has allocated as RESOURCE/ID; '' = it is not known.

    >>> gpus = JoinedDevices(DeviceInventory((InventoryDevice("gpu", 1, uuid="GPU-5a"),)))
    >>> [source_of(f"cri-proxy.io/{each}", gpus) for each in ("gpu/gpu-1", "rdma/rdma-0-share-3", "gpu/GPU-7c")]
    ['gpu/1', 'rdma/0', '']
    """
    found = devices_allocated((name,), joined)
    if found:
        return found[0].source
    part = _PART.fullmatch(name.rpartition("/")[2])
    return f"{part[1]}/{part[2]}" if part is not None else ""


def needing_proof(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of these CDI names that prove no device: they have a number, or a word of others.

    >>> needing_proof(["nvidia.com/gpu=0", "nvidia.com/gpu=GPU-5a", "cri-proxy.io/vf=0000:51:00.1", "a.com/gpu=all"])
    ('nvidia.com/gpu=0',)
    """
    instances = ((name, name.partition("=")[2]) for name in names)
    return tuple(name for name, text in instances if text != _ALL and not (address_in(text) or uuid_in(text)))


@dataclass(frozen=True, slots=True)
class CandidateNames:
    """The CDI names that devices may have: of each, the best first. ``counted`` are those by number of all GPUs.

    Vendors' tools may count GPUs otherwise than an inventory does.
    """

    grants: tuple[DeviceGrant, ...]
    names: tuple[tuple[str, ...], ...]
    counted: tuple[str, ...]

    @classmethod
    def of(cls, grants: Sequence[DeviceGrant], inventory: DeviceInventory) -> Self:
        """Return those of these devices."""
        gpus = inventory.of(GPU) if any(grant.kind == GPU for grant in grants) else ()
        kinds = dict.fromkeys(kind for gpu in gpus for kind in _vendor_kinds(gpu))
        numbers = sorted({*range(len(gpus)), *(gpu.minor for gpu in gpus)})
        counted = tuple(f"{kind}={number}" for kind in kinds for number in numbers)
        return cls(tuple(grants), tuple(names_of(grant, inventory) for grant in grants), counted)

    @property
    def every(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((*(name for names in self.names for name in names), *self.counted)))

    def those(self, declared: Collection[str]) -> Self:
        """Return these without the names that no specification declares."""
        names = tuple(tuple(name for name in names if name in declared) for names in self.names)
        return replace(self, names=names, counted=tuple(name for name in self.counted if name in declared))

    @property
    def to_prove(self) -> tuple[str, ...]:
        """The names of which has to be known what they are of; none where each GPU has a name that tells it."""
        pairs = zip(self.grants, self.names, strict=True)
        best = [next(iter(names), "") for grant, names in pairs if grant.kind == GPU]
        return self.counted if any(not name or name in self.counted for name in best) else ()

    def given(self, joined: JoinedDevices, proofs: Proofs) -> tuple[str, ...]:
        """Return the name of each device, '' = none.

        A number is that of its device unless its specification proves it to be another's; then it is one of the others
        that is proved.
        """
        pairs = zip(self.grants, self.names, strict=True)
        return tuple(self._given(grant, names, joined, proofs) for grant, names in pairs)

    def _given(self, grant: DeviceGrant, names: Iterable[str], joined: JoinedDevices, proofs: Proofs) -> str:
        proved = tuple(name for name in self.counted if proofs.get(name))
        for name in (*names, ""):
            # An identifier is of one device; a number is of whichever the vendor's tool has counted so.
            if name and name not in self.counted:
                return name
            for each in filter(None, (name, *proved)):
                if any(given.key == grant.key for given in devices_named((each,), joined, proofs)):
                    return each
        return ""


def _pieces(name: str, joined: JoinedDevices, proofs: Sequence[ProvedDevice]) -> Iterator[Piece]:
    """Yield the pieces of hardware behind a CDI name, of which these are proved."""
    kind, _, instance = name.partition("=")
    # The container has all GPUs of the vendor: none of them is free.
    if instance == _ALL:
        yield from (piece for piece in joined.pieces if _is_of_kind(piece, kind))
    for piece in joined.meant(f"{kind}/{instance}", proofs):
        # nvidia.com/gpu=0 is no GPU of AMD's, although one has that number.
        if kind not in _OF_VENDORS or piece.device is None or kind in _vendor_kinds(piece.device):
            yield piece


def _is_of_kind(piece: Piece, kind: str) -> bool:
    """Return whether a piece is a whole GPU to which its vendor gives CDI names of this kind."""
    if piece.device is not None:
        return not piece.vf and kind in _vendor_kinds(piece.device)
    return any(name.startswith(f"{kind}/") for name in piece.names)


def _names(device: InventoryDevice) -> tuple[str, ...]:
    own = f"{OWN_VENDOR}/{device.kind}={device.minor}"
    kinds, ids = _vendor_kinds(device), filter(None, (device.uuid, str(device.minor)))
    return (*(f"{kind}={name}" for name in ids for kind in kinds), own)


def _vendor_kinds(device: InventoryDevice) -> tuple[str, ...]:
    """Return the kinds of CDI names that the vendor of a GPU gives it; of all where no source names the vendor."""
    if device.kind != GPU:
        return ()
    return tuple(kind for vendor, kind in RESOURCE_OF.items() if device.maker in ("", vendor))
