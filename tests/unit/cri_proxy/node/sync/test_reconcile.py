from dataclasses import replace

import pytest

from cri_proxy.cri.annotations.affinity import MAX_AFFINITIES, MAX_PATTERNS
from cri_proxy.node.sync.reconcile import START_WITHIN_SECONDS, newest_by_key, reconcile, with_abandoned
from cri_proxy.node.sync.runtime_state import LiveContainer, LiveNode
from cri_proxy.state.rows import RowState
from policies.base import Affinity, ContainerKey, Expression, Pinning
from sysfs.cpuset import CpuSet
from tests.fakes.rows import make_row

KEY = ContainerKey("pod-1", "c0")
ROW = make_row()


def live(container_id: str = ROW.container_id, *, state: RowState = "running", created: int = 1) -> LiveContainer:
    return LiveContainer(container_id, ROW.sandbox_id, KEY, state, created)


def node(*containers: LiveContainer, sandbox: str = ROW.sandbox_id) -> LiveNode:
    return LiveNode(containers, frozenset({sandbox}))


def test_a_row_whose_container_runs_is_kept_as_it_is() -> None:
    assert reconcile([ROW], node(live())).rows == (ROW,)


def test_a_row_takes_the_state_that_the_runtime_gives() -> None:
    assert reconcile([ROW], node(live(state="created"))).rows[0].state == "created"


def test_a_start_that_nobody_saw_may_have_lost_what_was_written_meanwhile() -> None:
    """Its pinning is in doubt, so it is sent again (runc accepts an update during a start, and loses it)."""
    created = replace(ROW, state="created", unconfirmed=None)
    (row,) = reconcile([created], node(live(state="running"))).rows
    assert (row.state, row.acknowledged, row.unconfirmed) == ("running", ROW.acknowledged, ROW.acknowledged)


def test_a_doubt_that_was_saved_outlives_the_process() -> None:
    unconfirmed = replace(ROW, state="created", unconfirmed=Pinning(CpuSet.parse("7"), None))
    assert reconcile([unconfirmed], node(live(state="running"))).rows[0].unconfirmed == unconfirmed.unconfirmed


def test_an_exited_container_is_remembered_while_its_sandbox_is_there() -> None:
    row = reconcile([ROW], node(live(state="exited"))).rows[0]
    assert (row.state, row.acknowledged) == ("exited", None)


def test_a_container_that_vanished_with_its_sandbox_is_dropped() -> None:
    found = reconcile([ROW], node(sandbox="another"))
    assert (found.rows, found.dropped) == ((), (KEY,))


def test_a_create_whose_outcome_was_unknown_takes_the_container_that_came_of_it() -> None:
    pending = replace(ROW, state="pending", container_id="", acknowledged=None)
    row = reconcile([pending], node(live("new", state="created"))).rows[0]
    assert (row.container_id, row.state) == ("new", "created")


def test_a_create_that_never_happened_is_dropped() -> None:
    reserved = replace(ROW, state="reserved", container_id="", acknowledged=None)
    assert reconcile([reserved], node()).dropped == (KEY,)


@pytest.mark.parametrize(("state", "unknown"), [("created", 0), ("running", 1)])
def test_a_container_that_was_released_before_it_ran_holds_nothing_until_it_runs(state: RowState, unknown: int) -> None:
    released = replace(ROW, state="exited", acknowledged=None)
    assert len(reconcile([released], node(live(state=state))).unknown) == unknown


@pytest.mark.parametrize(("state", "unknown"), [("created", 0), ("running", 1)])
def test_a_container_holds_nothing_beside_the_place_of_another_attempt_until_it_runs(
    state: RowState, unknown: int
) -> None:
    ended = replace(ROW, state="exited", acknowledged=None)
    assert len(reconcile([ended], node(live("another", state=state))).unknown) == unknown


def test_a_live_container_without_a_row_is_unknown() -> None:
    assert reconcile([], node(live("x"))).unknown == (live("x"),)


def test_of_two_live_containers_of_one_name_the_newer_counts() -> None:
    assert newest_by_key([live("old", created=1), live("new", created=2)]) == {KEY: live("new", created=2)}


def test_an_older_namesake_of_a_kept_row_is_not_adopted() -> None:
    assert reconcile([ROW], node(live(created=2), live("old", created=1))).unknown == ()


def abandoned(*containers: LiveContainer, now: float = 0.0, starting: str = "") -> set[str]:
    marked = with_abandoned(node(*containers), now, lambda container_id: container_id == starting)
    assert all(c.is_live != (c.state == "exited" or c.is_abandoned) for c in marked.containers)
    return {c.id for c in marked.containers if c.is_abandoned}


@pytest.mark.parametrize("state", ["created", "running", "exited"])
def test_a_created_container_is_abandoned_once_there_is_a_newer_attempt(state: RowState) -> None:
    attempts = live("old", state="created", created=1), live("new", state=state, created=2)
    assert abandoned(*attempts) == {"old"}
    assert abandoned(*attempts, starting="old") == set()


def test_of_two_attempts_of_the_same_moment_none_is_newer() -> None:
    assert abandoned(live("a", state="created"), live("b", state="exited")) == set()


@pytest.mark.parametrize("state", ["running", "exited"])
def test_only_a_created_container_is_abandoned(state: RowState) -> None:
    assert abandoned(live("old", state=state, created=1), live("new", created=2), now=1e6) == set()


@pytest.mark.parametrize(
    ("created", "now", "is_abandoned"),
    [
        (1e9, START_WITHIN_SECONDS, False),
        (1e9, START_WITHIN_SECONDS + 1, True),
        (1e9 * START_WITHIN_SECONDS, 1.0, False),
        (1e9 * START_WITHIN_SECONDS, 0.0, True),
        (0, 1e9, False),
    ],
    ids=["new", "old", "a little in the future", "far in the future", "of unknown age"],
)
def test_a_created_container_is_abandoned_when_no_kubelet_waits_for_it(
    created: float, now: float, is_abandoned: bool
) -> None:
    assert abandoned(live(state="created", created=int(created)), now=now) == (
        {ROW.container_id} if is_abandoned else set()
    )


def test_an_abandoned_container_keeps_no_row_and_is_not_adopted() -> None:
    created = replace(ROW, state="created")
    marked = with_abandoned(node(live(state="created")), 1e6, lambda _: False)
    assert [row.state for row in reconcile([created], marked).rows] == ["exited"]
    assert reconcile([], marked).unknown == ()


@pytest.mark.parametrize(
    ("count", "operator", "kept"),
    [
        (2 * MAX_AFFINITIES, "Equals", True),
        (2 * MAX_AFFINITIES + 1, "Equals", False),
        (2 * MAX_PATTERNS, "Matches", True),
        (2 * MAX_PATTERNS + 1, "Matches", False),
    ],
)
def test_affinities_that_an_older_version_saved_keep_to_the_bounds_of_two_lists(
    count: int, operator: str, kept: bool
) -> None:
    affinities = tuple(Affinity(Expression("app", operator, ("web",))) for _ in range(count))
    request = replace(ROW.grant.request, affinities=affinities)
    (row,) = reconcile([replace(ROW, grant=replace(ROW.grant, request=request))], node(live())).rows
    assert row.grant.request.affinities == (affinities if kept else ())
    assert replace(row.grant.request, affinities=affinities) == request
