"""How many files a reader goes through who follows one flow in a running daemon, all caches warm."""

from pathlib import Path

import pytest

from tests.fakes.entered_files import entered_files
from tests.fakes.waiting import holds
from tests.unit.cri_proxy.daemon.test_watchers import CONFIG, Scene, started, was_kept

# An option that places nothing; and one for which the policy is built again and every grant tried, 30 files of policies
# and of the machine among them.
CONFIGURATION_FILES = {"driftCheckSeconds: 7": 60, "topologyAware: {PreferSharedCPUs: true}": 90}


@pytest.mark.parametrize(("option", "most"), CONFIGURATION_FILES.items())
async def test_an_accepted_change_of_the_configuration_enters_few_files(option: str, most: int, tmp_path: Path) -> None:
    """From the first notice of inotify to the saved file for the next start."""
    with entered_files() as entered:
        async with started(Scene(tmp_path)) as scene:
            for text in (f"{CONFIG}{option}\n", CONFIG):
                await scene.change(text, "applied")
                await was_kept(scene)
            await holds("nothing is under way", lambda: scene.daemon.node is not None and is_idle(scene))
            entered.begin()
            await scene.change(f"{CONFIG}{option}\n", "applied")
            await was_kept(scene)
            files = entered.end()
    assert len(files) <= most, sorted(files)


def is_idle(scene: Scene) -> bool:
    return scene.daemon.node is not None and len(scene.daemon.node.context.tasks) == 0
