"""What one pool offers and gives to a request beside these grants."""

from policies.base import CpuKind, Grant, Request
from policies.hardware.pools import PoolTree
from policies.topology_aware.cpus.allocate import Taken, take
from policies.topology_aware.cpus.offer import Offer, offers_of
from policies.topology_aware.supply.supply import room_of
from sysfs.cpuset import CpuSet
from tests.unit.policies.build import context_of, request


def owned(name: str, pool: str, cpus: str) -> Grant:
    return Grant(request(name), pool, CpuKind.EXCLUSIVE, exclusive=CpuSet.parse(cpus))


def offered(tree: PoolTree, pool: str, wanted: Request, *grants: Grant, keep_busy: bool = True) -> Offer:
    context = context_of(tree, wanted, *grants)
    strict, lenient = room_of(context.supply, keep_busy=keep_busy), room_of(context.supply, keep_busy=False)
    return offers_of(context, strict, lenient)[tree.named(pool).index]


def given(tree: PoolTree, pool: str, wanted: Request, *grants: Grant) -> Taken | None:
    context = context_of(tree, wanted, *grants)
    room = room_of(context.supply, keep_busy=False)
    i = tree.named(pool).index
    return take(context, tree.pools[i], offers_of(context, room, room)[i], room.give)


def given_cpus(tree: PoolTree, pool: str, wanted: Request, *grants: Grant) -> str:
    found = given(tree, pool, wanted, *grants)
    return "-" if found is None else str(CpuSet(found.exclusive | found.isolated))
