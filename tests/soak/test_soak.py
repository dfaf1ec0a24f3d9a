"""Five minutes of soak: both relays, both runtimes, and the proof that a leak would have been seen.

Longer ones, and what is in them: ``python -m tests.soak --help``. Two soaks at a time: each has a daemon of its own and
a process of its own, and waits as much as it works.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.e2e.conftest import missing
from tests.soak.plans import PLANS, soaked
from tests.soak.soak import Result

AT_ONCE = 2

pytestmark = pytest.mark.timeout(1200)  # the first waits for its own soak, the second for the one before, too


@pytest.fixture(scope="module")
def soaks(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Result]]:
    """The result of a soak by name, which is printed: pytest shows it when a test fails."""
    tests = [
        item for item in request.session.items if isinstance(item, pytest.Function) and "soaks" in item.fixturenames
    ]
    asked = {test.callspec.params["name"] for test in tests}
    pool = ProcessPoolExecutor(AT_ONCE, mp_context=multiprocessing.get_context("spawn"))
    running = {name: pool.submit(soaked, name) for name in PLANS if name in asked}

    def result_of(name: str) -> Result:
        result, told = running[name].result()
        print("\n".join((*told, *result.lines())))
        return result

    try:
        yield result_of
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        if any(soak.running() for soak in running.values()):
            for worker in multiprocessing.active_children():
                worker.terminate()  # it ends its daemon
        pool.shutdown()


@pytest.mark.parametrize("name", ["splice", "grpc"])
def test_nothing_grows_behind_the_relay(soaks: Callable[[str], Result], name: str) -> None:
    assert soaks(name).is_good


@pytest.mark.parametrize("name", ["splice before containerd", "grpc before containerd"])
def test_nothing_grows_before_a_real_containerd(soaks: Callable[[str], Result], name: str) -> None:
    if reason := missing():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    assert soaks(name).is_good


@pytest.mark.parametrize("name", ["small things kept"])
def test_a_soak_sees_memory_descriptors_and_tasks_that_are_kept(soaks: Callable[[str], Result], name: str) -> None:
    result = soaks(name)
    assert {"blocks", "files", "tasks"} <= set(result.leaks)
    assert result.problems == ()


@pytest.mark.parametrize("name", ["grants kept"])
def test_a_soak_sees_a_grant_that_is_kept(soaks: Callable[[str], Result], name: str) -> None:
    assert any("hold a grant and are gone" in problem for problem in soaks(name).problems)
