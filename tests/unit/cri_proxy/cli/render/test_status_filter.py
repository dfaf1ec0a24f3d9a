import pytest

from cri_proxy.cli.render.status_filter import StatusFilter, filtered, left_out
from cri_proxy.errors import CommandFailed
from sysfs.cpuset import CpuSet
from tests.fakes.views import status_view


@pytest.mark.parametrize(
    ("wanted", "names", "pools"),
    [
        (StatusFilter(), ["c0", "c1", "c2", "c3"], ["root", "socket #0", "socket #1"]),
        (StatusFilter(namespace="kube-system"), ["c2"], []),
        (StatusFilter(pod="we*"), ["c0", "c1", "c3"], ["root", "socket #0"]),
        (StatusFilter(kind="exclusive"), ["c0"], ["root", "socket #0"]),
        (StatusFilter(problems=True), ["c3"], []),
        (StatusFilter(pool="socket #0"), ["c0", "c1"], ["root", "socket #0"]),
        (StatusFilter(pool="socket #1"), [], ["root", "socket #1"]),
    ],
)
def test_the_containers_that_pass_stay_with_their_pools(
    wanted: StatusFilter, names: list[str], pools: list[str]
) -> None:
    shown = filtered(status_view(), wanted)
    assert [each.name for each in shown.containers] == names
    assert [pool.name for pool in shown.pools] == pools


def test_shown_and_left_out_are_all() -> None:
    whole = status_view()
    shown = filtered(whole, StatusFilter(pod="we*"))
    assert [each.name for each in left_out(whole, shown)] == ["c2"]
    assert left_out(whole, whole) == ()


def test_a_pool_that_does_not_exist_is_wrong_usage() -> None:
    with pytest.raises(CommandFailed, match="there is no pool 'socket 0'; did you mean socket #0") as raised:
        filtered(status_view(), StatusFilter(pool="socket 0"))
    assert raised.value.status == 2


def test_a_filter_is_put_in_words() -> None:
    assert str(StatusFilter("shop", "web*", problems=True)) == "namespace shop, pod web*, with problems"


def test_the_containers_that_may_run_on_a_cpu_pass() -> None:
    shown = filtered(status_view(), StatusFilter(cpus=CpuSet.parse("2")))
    assert [each.name for each in shown.containers if each.cpus is not None] == ["c0"]
    assert all(each.cpus is None for each in shown.containers if each.name != "c0")


def test_a_cpu_that_does_not_exist_is_wrong_usage() -> None:
    with pytest.raises(CommandFailed, match="there is no CPU 99; there are CPUs ") as raised:
        filtered(status_view(), StatusFilter(cpus=CpuSet.parse("2,99")))
    assert raised.value.status == 2
