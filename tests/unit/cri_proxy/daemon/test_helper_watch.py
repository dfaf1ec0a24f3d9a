import asyncio
import socket

from cri_proxy.daemon.helper_watch import HelperWatch
from cri_proxy.helper_process import HelperFailed, Launcher
from cri_proxy.tasks import Tasks
from tests.fakes.site import Silent
from tests.fakes.waiting import holds


class MortalLauncher(Launcher):
    """A launcher that ends when told, and is replaced once or not at all."""

    def __init__(self, *, is_replaced: bool) -> None:
        ours, self.theirs = socket.socketpair()
        super().__init__(ours, 0)
        self.is_replaced = is_replaced
        self.replaced = 0

    def restore(self) -> None:
        if not self.is_replaced:
            raise HelperFailed("no memory")
        self.replaced += 1
        self.close()
        self._control, self.theirs = socket.socketpair()

    def shut(self) -> None:
        self.close()
        self.theirs.close()


async def test_a_launcher_that_ends_is_replaced_and_the_problem_is_over() -> None:
    launcher, log, watching, lost = MortalLauncher(is_replaced=True), Silent(), Tasks(), asyncio.Event()
    watch = HelperWatch(launcher, log, lost.set)
    watching.start(watch.keep())
    await asyncio.sleep(0)
    launcher.theirs.close()
    await holds("it is replaced", lambda: launcher.replaced == 1 and not watch.problem)
    await watching.cancel()
    launcher.shut()
    assert ([error.split()[0] for error in log.errors], lost.is_set()) == (["helpers_lost"], False)


async def test_a_launcher_that_cannot_be_replaced_is_a_problem_and_ends_the_daemon() -> None:
    launcher, log, lost = MortalLauncher(is_replaced=False), Silent(), asyncio.Event()
    watch = HelperWatch(launcher, log, lost.set)
    launcher.theirs.close()
    await watch.keep()
    launcher.shut()
    assert "no file is read or written" in watch.problem
    assert "no memory; the daemon ends" in log.errors[-1]
    assert lost.is_set()
