"""Who draws a container or pushes it away, in sentences."""

from dataclasses import replace

from policies.base import Affinity, Allocations, ContainerKey, CpuKind, Expression, Grant, Pod, QosClass, Request
from policies.hardware.pools import build_pools
from policies.topology_aware.locality.affinity import affinity_reasons
from policies.topology_aware.options import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe

MACHINE = describe({"packages": 2, "cores": 4})
OPTIONS = TopologyAwareOptions(MACHINE.online, CpuSet())
TREE = build_pools(MACHINE, OPTIONS)


def request(name: str, *affinities: Affinity) -> Request:
    return Request(
        ContainerKey("uid-1", name), Pod("uid-1", "web", "shop", QosClass.GUARANTEED), 1000, affinities=affinities
    )


def near(name: str, weight: int) -> Affinity:
    return Affinity(Expression("name", "Equals", (name,)), weight)


HELD = Allocations((Grant(request("db"), "socket #1", CpuKind.SHARED),))


def texts(asked: Request, held: Allocations = HELD) -> list[str]:
    return [reason.text for reason in affinity_reasons(TREE, OPTIONS, held, asked)]


def test_an_affinity_draws_to_where_the_other_is() -> None:
    (text,) = texts(request("app", near("db", 3)))
    assert text.startswith("shop/web/db draws it by 3 to socket #1: its affinity")


def test_an_anti_affinity_pushes_from_there() -> None:
    (text,) = texts(request("app", near("db", -3)))
    assert text.startswith("shop/web/db pushes it by 3 from socket #1: its anti-affinity")


def test_whoever_matches_nobody_has_no_company() -> None:
    assert texts(request("app", near("cache", 3))) == []


def test_its_own_earlier_grant_draws_nobody() -> None:
    own = replace(HELD.grants[0], request=request("app", near("app", 3)))
    assert texts(own.request, Allocations((own,))) == []
