import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.cli.watch.changes import changes
from cri_proxy.node.status.model import ConfigurationView, RefusedView, ReloadView, StatusView
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.serving import served
from tests.fakes.views import status_view

WATCH = [sys.executable, "-m", "cri_proxy.cli.main", "status", "--watch", "--interval", "0.1"]


def told(before: StatusView, after: StatusView) -> list[str]:
    return [f"{change.container}: {change.text}" for change in changes(before, after)]


def with_first(**changed: object) -> StatusView:
    first, *others = status_view().containers
    return replace(status_view(), containers=(replace(first, **changed), *others))  # type: ignore[arg-type]


def test_nothing_changed_is_nothing_told() -> None:
    assert told(status_view(), status_view()) == []


def test_who_comes_and_goes_is_told_with_its_place() -> None:
    fewer = replace(status_view(), containers=status_view().containers[1:])
    assert told(fewer, status_view()) == ["default/web/c0: running, 2 exclusive on CPUs 2-3 in socket #0"]
    assert told(status_view(), fewer) == ["default/web/c0: gone"]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"cpus": CpuSet.parse("2-5"), "exclusive": CpuSet.parse("2-5")}, "CPUs 2-3 -> CPUs 2-5, 4 exclusive"),
        ({"mems": NodeSet.parse("0-1")}, "memory node 0 -> memory nodes 0-1"),
        ({"pool": "root"}, "from socket #0 to root"),
        ({"state": "exited"}, "exited"),
        ({"notes": ("an update waits",)}, "an update waits"),
    ],
)
def test_what_changed_of_a_container_is_told(changed: dict[str, object], text: str) -> None:
    assert told(status_view(), with_first(**changed)) == [f"default/web/c0: {text}"]


def test_refusals_reloads_and_warnings_are_told_once() -> None:
    refused = RefusedView("shop", "big", "c", 5.0, "refused: too large")
    reload = ReloadView(5.0, "rejected", "line 3: unknown key", "f", is_asked=False)
    after = replace(
        status_view(),
        refused=(refused,),
        configuration=ConfigurationView("f", "", "", 0.0, last=reload),
        warnings=("the store fails",),
    )
    assert told(replace(status_view(), warnings=()), after) == [
        "shop/big/c: refused: too large",
        ": configuration rejected: line 3: unknown key",
        ": warning: the store fails",
    ]
    assert told(after, after) == []


def test_readiness_and_new_violations_are_told() -> None:
    fine = replace(status_view(), is_ready=True, violations=("a is on CPUs of b",))
    worse = replace(fine, is_ready=False, violations=("a is on CPUs of b", "c is on CPUs of d"))
    assert told(fine, worse) == [": not ready", ": violation: c is on CPUs of d"]
    assert told(worse, fine) == [": ready"]


def test_without_a_terminal_each_container_and_change_is_a_line(tmp_path: Path) -> None:
    argv = [*WATCH, "--admin", f"{tmp_path}/a.sock"]
    with (
        served(tmp_path / "a.sock"),
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child,
    ):
        assert child.stdout is not None
        lines = [child.stdout.readline().rstrip()[21:] for _ in range(5)]
        os.kill(child.pid, signal.SIGINT)
        assert child.wait(30) == 130
    assert lines[0] == "default/web/c0: running, 2 exclusive on CPUs 2-3 in socket #0"
    assert lines[4] == "worker-1: warning: reservedResources.cpu is not set"
