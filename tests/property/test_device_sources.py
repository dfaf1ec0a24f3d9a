"""Histories in which all sources of devices are mixed at random: no piece of hardware is given to two containers.

The truth is a node's GPUs, NICs and their virtual functions. An inventory lists some of them by numbers, addresses and
identifiers, cost files by names of each kind; both change while containers hold devices, and the daemon starts again.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.codec import decode, encode
from cri_proxy.cri.devices.names import devices_named
from policies.base import Allocations, Grant, Placed, Rejected
from policies.builder import build_policy
from policies.device_grants import DeviceGrant
from policies.device_requests import DeviceAmount, DeviceAsk
from policies.devices import ALLOCATE_HINT, DeviceInventory, InventoryDevice, PciePath, VfGroup, VirtualFunction
from policies.policy import Policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.fakes.device_policy import inventory
from tests.unit.policies.build import request

STEPS = 25
MACHINE = describe({"packages": 2, "cores": 4})
OPTIONS = TopologyAwareOptions(MACHINE.online, CpuSet.of([0]))


@dataclass(frozen=True)
class Hardware:
    """A GPU, a NIC, or with ``vf`` a virtual function of it; ``number`` is what it is as long as none changes."""

    kind: str
    number: int
    vf: int = 0

    @property
    def bus(self) -> str:
        return f"0000:{1 if self.kind == 'gpu' else 2}{self.number}:00.{self.vf}"

    @property
    def uuid(self) -> str:
        return f"GPU-{self.number}a000000-0000-0000-0000-00000000000{self.number}" if self.kind == "gpu" else ""

    def overlaps(self, other: "Hardware") -> bool:
        same = (self.kind, self.number) == (other.kind, other.number)
        return same and (self.vf == other.vf or not self.vf or not other.vf)


ALL = tuple(Hardware("gpu", n) for n in range(3)) + tuple(Hardware("rdma", n, vf) for n in range(2) for vf in (0, 1, 2))
AMOUNTS = (("nvidia.com/gpu", 1), ("koordinator.sh/gpu", 50), ("koordinator.sh/rdma", 1), ("koordinator.sh/rdma", 100))
WHOLE = [piece for piece in ALL if not piece.vf]


class Sources:
    """What the sources list now, and which hardware they mean by it.

    ``is_complete``: the inventory always lists all, so that cost files may use every kind of name. Else it comes and
    goes, and cost files use one kind: names of two kinds for one device cannot be told to be one where nothing joins
    them. Numbers change only where addresses tell whose they are, and then no name has a number.
    """

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.is_complete = rng.random() < 0.5
        self.renumbers = rng.random() < 0.3
        kinds = ["bus", "uuid"] if self.renumbers else ["bus", "uuid", "number"]
        self.kinds = kinds if self.is_complete else [rng.choice(kinds)]
        self.draw()

    def draw(self) -> None:
        rng = self.rng
        listed = WHOLE if self.is_complete else [piece for piece in WHOLE if rng.random() < 0.7]
        self.number_of = {piece: piece.number for piece in WHOLE}
        if self.renumbers:
            for kind in ("gpu", "rdma"):
                pieces = [piece for piece in WHOLE if piece.kind == kind]
                self.number_of |= dict(zip(pieces, rng.sample(range(5), len(pieces)), strict=True))
        self.names: dict[str, Hardware] = {}
        for piece in ALL:
            for kind in self.kinds:
                if rng.random() < 0.6 / len(self.kinds) + 0.2:
                    self.names |= dict.fromkeys(self.names_of(piece, kind), piece)
        self.devices = DeviceInventory(tuple(map(self.listed, listed)), costs=inventory(*self.names))

    def listed(self, piece: Hardware) -> InventoryDevice:
        vfs = tuple(VirtualFunction(each.vf, each.bus) for each in ALL if each.vf and each.overlaps(piece))
        path = PciePath(bus=piece.bus if "bus" in self.kinds or self.renumbers or piece.kind == "rdma" else "")
        uuid = piece.uuid if "uuid" in self.kinds else ""
        groups = (VfGroup(vfs),) if vfs else ()
        return InventoryDevice(
            piece.kind, self.number_of[piece], piece.number % 2, None, path, vf_groups=groups, uuid=uuid
        )

    def names_of(self, piece: Hardware, kind: str) -> Iterator[str]:
        pick = self.rng.choice
        if kind == "bus":
            yield f"{pick(('a.com/x', 'b.com/y'))}/{piece.bus}"
        elif kind == "uuid" and piece.uuid:
            yield f"{pick(('a.com/x', 'nvidia.com/gpu'))}/{pick((str.lower, str.upper))(piece.uuid)}"
        elif kind == "number" and not piece.vf:
            resource = pick(("nvidia.com/gpu", "cri-proxy.io/gpu")) if piece.uuid else "koordinator.sh/rdma"
            yield f"{resource}/{pick(('', piece.kind))}{piece.number}"

    def meant(self, device: DeviceGrant) -> Hardware:
        """The hardware behind a device that was given just now."""
        if device.cost_name:
            return self.names[device.cost_name]
        if device.vf:
            return next(piece for piece in ALL if piece.bus == device.vf)
        return next(p for p in WHOLE if (p.kind, self.number_of[p]) == device.key)


class History:
    def __init__(self, rng: Random) -> None:
        self.rng, self.sources = rng, Sources(rng)
        self.held = Allocations()
        self.hardware: dict[str, list[tuple[Hardware, int]]] = {}  # by pod: with the units that it has
        self.policy = self.bound()

    def bound(self) -> Policy:
        return build_policy("topology-aware", MACHINE, OPTIONS, self.sources.devices)

    def step(self, number: int) -> None:
        rng = self.rng
        if self.held.grants and rng.random() < 0.2:
            gone = rng.choice(self.held.grants)
            self.held = self.held.without(gone.container)
            del self.hardware[gone.container.pod_uid]
        elif rng.random() < 0.3:
            self.sources.draw()
            self.policy = self.policy.with_devices(self.sources.devices)
        elif rng.random() < 0.2:
            self.restart()
        else:
            self.create(f"p{number}")

    def restart(self) -> None:
        """Nothing changes. Where an inventory tells later whose a virtual function is, two may have had the same."""
        saved = tuple(decode(Grant, json.loads(json.dumps(encode(grant, sparse=True)))) for grant in self.held.grants)
        self.policy = self.bound()
        found = self.policy.reinstate(replace(self.held, grants=saved))
        after = found.allocations.grants
        assert [[(d.key, d.vf, d.amount) for d in g.devices] for g in after] == [
            [(d.key, d.vf, d.amount) for d in g.devices] for g in saved
        ]
        assert after == saved or not self.sources.is_complete
        self.held = found.allocations

    def create(self, pod: str) -> None:
        wanted = request(f"{pod}/c", 0, **self.ask())  # type: ignore[arg-type]  # by name
        decision = self.policy.decide(self.held, wanted)
        if isinstance(decision, Rejected):
            return
        assert isinstance(decision, Placed)
        mine: list[tuple[Hardware, int]] = []
        for device in decision.grant.devices:
            piece = self.sources.meant(device)
            units = device.amount if device.kind in ("gpu", "rdma") and not device.vf else 100
            if not device.is_given:
                self.check(piece, units, mine, pod)
            mine.append((piece, units))
        self.hardware[pod] = mine
        self.held = self.held.with_grants(*decision.moved, decision.grant)

    def ask(self) -> dict[str, object]:
        rng = self.rng
        asked: dict[str, object] = {}
        wanted = DeviceAsk()
        kinds = sorted({name.rpartition("/")[0] for name in self.sources.names})
        if kinds and rng.random() < 0.6:
            some = sorted(rng.sample(kinds, min(len(kinds), rng.choice((1, 1, 2)))))
            wanted = DeviceAsk(tuple(DeviceAmount(kind, rng.choice((1, 1, 2))) for kind in some))
        if not wanted or rng.random() < 0.3:
            amount = rng.choice(
                (("nvidia.com/gpu", 1), ("koordinator.sh/gpu", 50), ("koordinator.sh/rdma", rng.choice((1, 100))))
            )
            hint = json.dumps({"rdma": {"vfSelector": {}}}) if amount == ("koordinator.sh/rdma", 1) else "{}"
            wanted = replace(wanted, requests=(amount,), annotations=((ALLOCATE_HINT, hint),))
        if rng.random() < 0.1:
            asked["given"] = devices_named([f"cri-proxy.io/gpu={rng.randrange(3)}"], self.policy.known)
        return asked | {"devices": wanted}

    def check(self, piece: Hardware, units: int, mine: list[tuple[Hardware, int]], pod: str) -> None:
        """What is chosen for a container overlaps with nothing that another one has, or that it has itself."""
        others = [each for its in self.hardware.values() for each in its] + mine
        knows_parts = self.sources.is_complete  # else nothing may have told whose the virtual function is
        for other, taken in others:
            if piece == other:
                assert units + taken <= 100, (pod, piece, self.hardware, self.sources.devices)
            elif knows_parts and piece.overlaps(other):
                whole = units if not piece.vf else taken
                assert whole < 100, (pod, piece, other, self.hardware)


@settings(max_examples=150)
@given(st.integers(0, 1 << 32))
def test_no_piece_of_hardware_is_given_twice(seed: int) -> None:
    history = History(Random(seed))
    for number in range(STEPS):
        history.step(number)
