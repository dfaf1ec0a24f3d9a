from dataclasses import replace

import pytest

from cri_proxy.cri.grant_text import grant_to_text
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.read_status import Existing
from cri_proxy.node.sync.restore_grant import Rebuilt, rebuild, united
from policies.alignment import Alignment
from policies.base import CpuKind, Grant, QosClass
from policies.claims import CpuClaim
from policies.device_requests import DeviceAmount, DeviceAsk
from policies.pod_share import PodShare
from policies.preferences import Preferences
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe
from tests.fakes.device_policy import listed
from tests.fakes.grants import request
from tests.unit.policies import build
from tests.unit.policies.pods import fill

# Threads 2n and 2n+1 are of one core; the kernel isolates CPUs 6 and 7; node 1 is PMEM.
MACHINE = describe(
    {
        "cores": 4,
        "threads": 2,
        "isolated": "6-7",
        "memory": "2Gi",
        "memory_nodes": [{"memory": "8Gi", "kind": "pmem", "near": {0: 17}}],
    }
)
OWNER = Grant(request("a", 2000), "root", CpuKind.EXCLUSIVE, CpuSet.parse("2-3"), mems=NodeSet.parse("0"))
MIXED = replace(OWNER, request=request("a", 2500), kind=CpuKind.MIXED, shared_mcpu=500)
SHARER = replace(OWNER, request=request("a", 500), kind=CpuKind.SHARED, exclusive=CpuSet(), shared_mcpu=500)


def live(created: Grant, cpus: str, mcpu: int | None = None, mems: str = "0") -> Rebuilt:
    """What is rebuilt of a container that was created with this grant and is now on these CPUs for this request."""
    return rebuild(existing(created, cpus, mcpu, mems), MACHINE)


def existing(created: Grant, cpus: str, mcpu: int | None = None, mems: str = "0") -> Existing:
    asks = created.request if mcpu is None else replace(created.request, cpu_request_mcpu=mcpu)
    return Existing(
        container_id="id",
        state=pb.CONTAINER_RUNNING,
        request=asks,
        cpus=CpuSet.parse(cpus) or None,
        mems=NodeSet.parse(mems) or None,
        pid=1,
        grant_text=grant_to_text(created),
    )


def held(rebuilt: Rebuilt) -> tuple[str, list[str]] | None:
    grant = rebuilt.grant
    return None if grant is None else (str(grant.owned), [str(cpus) for cpus in grant.added])


@pytest.mark.parametrize(("created", "cpus"), [(OWNER, "2-3"), (MIXED, "0-5"), (SHARER, "0-5")])
def test_what_has_not_changed_since_creation_is_as_it_was(created: Grant, cpus: str) -> None:
    assert live(created, cpus).grant == created


@pytest.mark.parametrize("cpus", ["2-3", "1-2"])
def test_the_nodes_that_it_is_kept_within_are_known_again(cpus: str) -> None:
    alignment = Alignment(NodeSet.of([0]), NodeSet.of([0]), is_strict=True)
    created = replace(OWNER, request=replace(OWNER.request, alignment=alignment))
    rebuilt = live(created, cpus)
    previous = rebuilt.request.previous
    assert alignment in (rebuilt.grant and rebuilt.grant.request.alignment, previous and previous.alignment)


def test_a_container_that_hides_siblings_and_shares_owns_the_hidden_ones_too() -> None:
    assert live(MIXED, "0,2,4").grant == MIXED
    assert live(MIXED, "0,4").grant is None


def test_the_live_memory_nodes_win() -> None:
    grant = live(OWNER, "2-3", mems="0-1").grant
    assert grant is not None
    assert str(grant.mems) == "0-1"


def test_growths_of_before_creation_are_kept_and_later_ones_come_last() -> None:
    """A container that was made again after it had grown has its growths in the annotation."""
    grown = replace(OWNER, request=request("a", 4000), exclusive=CpuSet.parse("0-3"))
    grown = replace(grown, added=(CpuSet.parse("1"), CpuSet.parse("0")))
    assert held(live(grown, "0-5", 6000)) == ("0-5", ["1", "0", "4-5"])


def test_growths_that_were_given_back_are_forgotten() -> None:
    grown = replace(OWNER, request=request("a", 4000), exclusive=CpuSet.parse("0-3"))
    grown = replace(grown, added=(CpuSet.parse("1"), CpuSet.parse("0")))
    assert held(live(grown, "1-3", 3000)) == ("1-3", ["1"])


def test_isolated_cpus_that_it_grew_by_are_isolated() -> None:
    one = replace(OWNER, request=request("a", 1000), kind=CpuKind.ISOLATED, exclusive=CpuSet(), isolated=CpuSet.of([6]))
    grant = live(one, "6-7", 2000).grant
    assert grant is not None
    assert (str(grant.exclusive), str(grant.isolated)) == ("", "6-7")


def test_siblings_that_it_hides_are_its_own() -> None:
    assert held(live(replace(OWNER, exclusive=CpuSet.parse("2-5")), "2,4")) == ("2-5", [])


def test_whole_cores_are_all_its_own() -> None:
    assert held(live(OWNER, "2-5", 3000)) == ("2-5", ["4-5"])


def test_of_a_mixed_one_that_grew_only_what_it_began_with_is_known() -> None:
    rebuilt = live(MIXED, "0-5", 3500)
    assert rebuilt.grant is None
    assert rebuilt.request.previous is not None
    assert (rebuilt.request.previous.pool, str(rebuilt.request.previous.owned)) == ("root", "2-3")


def test_an_owner_that_had_to_share_wants_its_cpus_back() -> None:
    rebuilt = live(OWNER, "0-5")
    assert rebuilt.grant is None
    assert rebuilt.request.previous is not None
    assert str(rebuilt.request.previous.owned) == "2-3"


def test_a_sharer_that_was_resized_wants_its_pool_back() -> None:
    rebuilt = live(SHARER, "0-5", 900)
    assert rebuilt.grant is None
    assert rebuilt.request.previous is not None
    assert not rebuilt.request.previous.owned


def test_a_reserved_one_that_was_resized_is_placed_anew() -> None:
    system = replace(SHARER, kind=CpuKind.RESERVED, shared_mcpu=0, reserved_mcpu=500)
    assert live(system, "0").grant == system
    assert live(system, "0", 700) == Rebuilt(replace(system.request, cpu_request_mcpu=700))


def test_a_best_effort_one_asks_for_nothing() -> None:
    idle = replace(SHARER, request=request("a", 0, qos=QosClass.BEST_EFFORT), shared_mcpu=0)
    assert live(idle, "0-5").grant == idle


def test_without_an_annotation_or_a_cpuset_it_is_placed_anew() -> None:
    assert live(OWNER, "") == Rebuilt(OWNER.request)
    found = Existing("id", pb.CONTAINER_RUNNING, OWNER.request, OWNER.owned, None, 1, "garbage")
    assert rebuild(found, MACHINE) == Rebuilt(OWNER.request, is_known=False)


@pytest.mark.parametrize(("mems", "is_cold"), [("1", True), ("0-1", False)])
def test_a_cold_start_that_lasts_is_known_by_its_memory(mems: str, is_cold: bool) -> None:
    asks = replace(OWNER.request, preferences=replace(OWNER.request.preferences, cold_start_seconds=60))
    cold = replace(OWNER, request=asks, mems=NodeSet.parse("1"), is_cold=True)
    grant = live(cold, "2-3", mems=mems).grant
    assert grant is not None
    assert grant.is_cold is is_cold


@pytest.mark.parametrize(("cpus", "owned"), [("2-3", ("2-3", [])), ("2-5", ("2-5", ["4-5"])), ("0-5", ("2-3", []))])
def test_on_more_cpus_than_its_pod_asks_for_it_has_its_own_alone(cpus: str, owned: tuple[str, list[str]]) -> None:
    """As ``reset`` leaves it. More CPUs within the limit are those of a pod that was resized."""
    found = existing(replace(OWNER, share=PodShare(cpu_mcpu=2000)), cpus)
    limited = replace(found, request=replace(found.request, cpu_limit_mcpu=4000))
    assert held(rebuild(limited, MACHINE)) == owned


def test_who_asked_for_no_cold_start_has_none() -> None:
    grant = live(replace(OWNER, mems=NodeSet.parse("1")), "2-3", mems="1").grant
    assert grant is not None
    assert not grant.is_cold


GPUS = ("example.com/gpu/gpu1", "example.com/gpu/gpu2", "example.com/nic/eth0")
ASKED = DeviceAsk((DeviceAmount("example.com/gpu", 2), DeviceAmount("example.com/nic", 1)))


def with_devices(created: Grant) -> Grant:
    asks = replace(created.request, preferences=Preferences(devices=ASKED))
    return replace(created, request=asks, devices=listed(*GPUS))


@pytest.mark.parametrize(("created", "cpus"), [(OWNER, "2-3"), (MIXED, "0-5"), (SHARER, "0-5")])
def test_its_devices_are_known_again(created: Grant, cpus: str) -> None:
    assert live(with_devices(created), cpus).grant == with_devices(created)


@pytest.mark.parametrize("kind", [CpuKind.RESERVED, CpuKind.SHARED, CpuKind.EXCLUSIVE])
@pytest.mark.parametrize("cpus", ["", "1-2,7"])
def test_a_container_that_is_placed_again_asks_for_the_devices_that_it_has(kind: CpuKind, cpus: str) -> None:
    rebuilt = live(with_devices(replace(OWNER, kind=kind)), cpus, 3000)
    assert rebuilt.grant is None
    assert rebuilt.request.previous is not None
    assert rebuilt.request.previous.devices == listed(*GPUS)
    assert rebuilt.request.preferences.devices == ASKED


def test_a_container_whose_cpus_are_left_alone_keeps_its_devices() -> None:
    preserved = with_devices(replace(SHARER, kind=CpuKind.PRESERVE, pool="", shared_mcpu=0))
    assert live(preserved, "", mems="").grant == preserved


def test_what_runs_has_its_devices_although_its_pod_may_not_ask_any_more() -> None:
    created = replace(OWNER, devices=listed(*GPUS))  # as its annotations are read now, it asks for none
    assert created.request.preferences.devices == DeviceAsk()
    grant = live(created, "2-3").grant
    assert grant is not None
    assert (grant.devices, grant.request.preferences.devices) == (listed(*GPUS), ASKED)


@pytest.mark.parametrize("is_ours", [True, False])
def test_what_was_created_without_devices_gets_none_while_it_runs(is_ours: bool) -> None:
    """A device enters a container with its creation only."""
    asks = replace(OWNER, request=replace(OWNER.request, preferences=Preferences(devices=ASKED)))
    rebuilt = live(asks, "2-3") if is_ours else rebuild(replace(existing(asks, "2-3"), grant_text=""), MACHINE)
    assert rebuilt.request.preferences.devices == DeviceAsk()


def test_a_claim_comes_back_with_the_cpus_that_were_chosen() -> None:
    claim = CpuClaim(CpuSet.parse("2-3"), "DRA_CPUSET_a")
    created = replace(OWNER, request=replace(OWNER.request, claim=claim))
    unread = replace(existing(created, "2-3"), request=OWNER.request)  # what the runtime knows tells of no claim
    grant = rebuild(unread, MACHINE).grant
    assert grant is not None
    assert (grant.owned, grant.request.claim, grant.request.origins) == (claim.cpus, claim, (("claim", claim.source),))


def test_claimed_cpus_that_are_not_those_of_the_annotation_are_asked_for_again() -> None:
    claim = CpuClaim(CpuSet.parse("2-3"), "DRA_CPUSET_a")
    rebuilt = live(replace(OWNER, request=replace(OWNER.request, claim=claim)), "2", 1000)
    assert (rebuilt.grant, rebuilt.request.claim) == (None, claim)


def test_containers_of_two_claims_of_a_pod_are_united_by_claim() -> None:
    """The annotation of the first of each was written before the other came: it does not say that it shares."""
    claims = [CpuClaim(CpuSet.parse(listed), f"DRA_CPUSET_{listed}") for listed in ("4-5", "8-9")]
    grants = fill(*(build.request(f"p/{name}", claim=claims[i // 2]) for i, name in enumerate("abcd"))).grants
    written = [grant if i % 2 else replace(grant, share=None) for i, grant in enumerate(grants)]
    found = united((Rebuilt(grant.request, grant), grant.owned) for grant in written)
    assert [str(found[grant.container].owned) for grant in grants] == ["4-5", "4-5", "8-9", "8-9"]
    assert all(grant.shares_cpus for grant in found.values())


def test_a_container_is_united_with_those_of_its_pod_that_have_their_place() -> None:
    claim = CpuClaim(CpuSet.parse("4-5"), "DRA_CPUSET_4-5")
    first, second = fill(*(build.request(f"p/{name}", claim=claim) for name in "ab")).grants
    written = Rebuilt(first.request, replace(first, share=None))
    assert united([(written, first.owned)])[first.container].share is None
    assert united([(written, first.owned)], [second])[first.container].shares_cpus
