"""What all files of the node share; the other rules are proved by cost files, in ``test_cost_files``."""

from pathlib import Path

from cri_proxy.config.option_groups import DeviceOptions
from cri_proxy.daemon.file_reload import POLL_SECONDS, FilesWatcher, WatchedPlace
from cri_proxy.daemon.inventory_file import InventoryFile
from cri_proxy.file_workers import PLAIN_THREADS
from cri_proxy.in_force.last_good import save_inventory
from cri_proxy.in_force.last_good_writer import LastGoodWriter
from cri_proxy.in_force.text_files import FoundFiles
from cri_proxy.in_force.watch import Watch
from cri_proxy.tasks import Tasks
from tests.fakes.clock import ManualClock
from tests.fakes.reloads import Heard


async def test_a_place_is_what_the_options_in_force_name_at_each_look(tmp_path: Path) -> None:
    paths = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    named = iter(paths)
    watched = InventoryFile(DeviceOptions(), PLAIN_THREADS, clock=ManualClock(), journal=Heard())
    place = WatchedPlace(watched, lambda: DeviceOptions(str(next(named))))
    assert (await place.read()).path == paths[0]
    assert "b.yaml" in {name for names in (await place.lookups()).values() for name in names}


async def test_what_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    options = DeviceOptions(str(tmp_path / "a.yaml"))
    watched = InventoryFile(options, PLAIN_THREADS, clock=ManualClock(), journal=Heard())
    first = await watched.read(options)
    watched.use(first)
    assert await watched.read(options) is first
    assert watched.view().rejected == 1


async def nothing(found: FoundFiles, is_asked: bool) -> None:
    """Take it."""


async def test_what_is_late_or_not_saved_is_a_warning_each(tmp_path: Path) -> None:
    clock, journal = ManualClock(), Heard()
    watched = InventoryFile(DeviceOptions(), PLAIN_THREADS, clock=clock, journal=journal)
    watch = Watch(WatchedPlace(watched, DeviceOptions), watched.found, nothing, clock=clock)
    writer = LastGoodWriter(tmp_path, save_inventory, event="not_kept", tasks=Tasks(), journal=journal)
    watcher = FilesWatcher(watched, watch, writer, clock=clock)
    assert list(watcher.warnings()) == []
    watch.problem, writer.problem = "too many watches", "the disk is full"
    assert list(watcher.warnings()) == [
        "changes of the inventory files are found by polling only, every minute: too many watches",
        "a start with a bad inventory file would not find its last good content: the disk is full",
    ]
    assert POLL_SECONDS >= 60
