"""The configuration is saved for the next start in the background."""

from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.config.last_known_good import KnownGood, find_known_good
from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config
from cri_proxy.daemon.watchers import LastKnownGood
from cri_proxy.tasks import Tasks
from tests.fakes.reloads import Heard

FILE = Path("/etc/cri-proxy.yaml")
KEPT = KnownGood(parse_config("adopt: leave"), FILE, FILE, "", "0" * 64, 5.0)


class Scene:
    """A state directory; ``keep`` returns when everything is written."""

    def __init__(self, directory: Path) -> None:
        self.tasks, self.observer = Tasks(), Heard()
        self.writer = LastKnownGood(directory, self.tasks, self.observer)

    async def keep(self, *kept: KnownGood) -> None:
        for each in kept:
            self.writer.keep(each)
        await self.tasks.join()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_the_newest_of_several_is_found(scene: Scene, tmp_path: Path) -> None:
    newest = replace(KEPT, config=Config())
    await scene.keep(KEPT, replace(KEPT, group="rt"), newest)
    assert find_known_good(tmp_path, FILE) == newest


async def test_one_that_comes_later_is_kept_too(scene: Scene, tmp_path: Path) -> None:
    await scene.keep(KEPT)
    await scene.keep(replace(KEPT, group="rt"))
    found = find_known_good(tmp_path, FILE)
    assert found is not None
    assert found.group == "rt"


async def test_what_cannot_be_kept_is_a_warning_and_no_more(scene: Scene, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    await scene.keep(KEPT)
    assert "chmod go-w" in str(scene.observer.fields("config_not_kept")["reason"])
    assert "would not find this configuration" in scene.writer.warnings()[0]


async def test_the_warning_ends_when_it_is_kept_at_last(scene: Scene, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    await scene.keep(KEPT)
    tmp_path.chmod(0o700)
    await scene.keep(KEPT)
    assert scene.writer.warnings() == ()
