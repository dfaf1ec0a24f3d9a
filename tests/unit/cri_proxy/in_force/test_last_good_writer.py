from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy import events
from cri_proxy.config.last_known_good import KNOWN_GOOD, KnownGood, find_known_good
from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config
from cri_proxy.in_force.last_good_writer import LastGoodWriter, StateDirectory
from cri_proxy.tasks import Tasks
from tests.fakes.reloads import Heard

FILE = Path("/etc/cri-proxy.yaml")

KEPT = KnownGood(parse_config("adopt: leave"), FILE, FILE, "", "0" * 64, 5.0)


class Writer:
    """A state directory; ``keep`` returns when everything is written."""

    def __init__(self, directory: Path) -> None:
        self.tasks, self.journal = Tasks(), Heard()
        state = StateDirectory(directory, self.tasks, self.journal)
        self.known_good: LastGoodWriter[KnownGood] = LastGoodWriter(state, KNOWN_GOOD, events.CONFIG_NOT_KEPT)

    async def keep(self, *kept: KnownGood) -> None:
        for each in kept:
            self.known_good.keep(each)
        await self.tasks.join()


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


async def test_the_newest_of_several_is_found(writer: Writer, tmp_path: Path) -> None:
    newest = replace(KEPT, config=Config())
    await writer.keep(KEPT, replace(KEPT, group="rt"), newest)
    assert find_known_good(tmp_path, FILE) == newest


async def test_one_that_comes_later_is_kept_too(writer: Writer, tmp_path: Path) -> None:
    await writer.keep(KEPT)
    await writer.keep(replace(KEPT, group="rt"))
    found = find_known_good(tmp_path, FILE)
    assert found is not None
    assert found.group == "rt"


async def test_what_cannot_be_kept_is_logged_and_no_more(writer: Writer, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    await writer.keep(KEPT)
    assert "chmod go-w" in str(writer.journal.fields("config_not_kept")["reason"])
    assert "chmod go-w" in writer.known_good.problem


async def test_the_problem_ends_when_it_is_kept_at_last(writer: Writer, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    await writer.keep(KEPT)
    tmp_path.chmod(0o700)
    await writer.keep(KEPT)
    assert writer.known_good.problem == ""
