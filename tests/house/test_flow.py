"""How many files a reader goes through who follows one flow in a running daemon, all caches warm."""

from pathlib import Path

import pytest

from tests.fakes.entered_files import entered_files
from tests.unit.cri_proxy.daemon.test_watchers import CONFIG, Scene, started, was_kept

# An option that places nothing; and one for which the policy is built again and every grant tried, 30 files of policies
# and of the machine among them.
CONFIGURATION_FILES = {"driftCheckSeconds: 7": 60, "topologyAware: {PreferSharedCPUs: true}": 90}
DAEMON_VISITS = 15
# Of timers, which run meanwhile on a busy machine.
BESIDE = {"cri_proxy/daemon/loop_lag.py", "cri_proxy/metrics/counters.py"}


@pytest.mark.parametrize(("option", "most"), CONFIGURATION_FILES.items())
async def test_an_accepted_change_of_the_configuration_enters_few_files(option: str, most: int, tmp_path: Path) -> None:
    """From the first notice of inotify to the saved file for the next start; what is entered each time."""
    rounds, visits = list[set[str]](), list[int]()
    with entered_files() as entered:
        async with started(Scene(tmp_path)) as scene:
            for _ in range(4):
                entered.begin()
                await scene.change(f"{CONFIG}{option}\n", "applied")
                await was_kept(scene)
                rounds.append(entered.end())
                visits.append(entered.visits("cri_proxy/daemon/"))
                await scene.change(CONFIG, "applied")
                await was_kept(scene)
    files = set.intersection(*rounds) - BESIDE
    assert len(files) <= most, sorted(files)
    assert min(visits) <= DAEMON_VISITS
