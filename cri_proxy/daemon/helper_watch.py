"""Notice that the launcher of helper processes has ended, and replace it; the daemon is of no use without one."""

import asyncio
from collections.abc import Callable
from typing import Final

from cri_proxy import events
from cri_proxy.helper_process import HelperFailed, Launcher
from cri_proxy.logs import Log
from cri_proxy.tasks import readable

PAUSE_SECONDS: Final = 1.0
"""Between two replacements: whatever ends each launcher at once must not keep the node busy."""


class HelperWatch:
    """Keeps a launcher running; ``problem`` is why files cannot be read or written right now, '' if they can."""

    def __init__(self, launcher: Launcher, log: Log, on_lost: Callable[[], None]) -> None:
        """``on_lost`` is called once no launcher can be started: the service manager starts another daemon then."""
        self.launcher = launcher
        self._log = log
        self._on_lost = on_lost
        self.problem = ""

    async def keep(self) -> None:
        """Replace the launcher each time that it ends; return after ``on_lost``."""
        while True:
            with self.launcher.watched() as socket:  # it writes nothing, so its socket is readable when it has ended
                await readable(socket)
            self.problem = "the launcher of helper processes has ended: no file is read or written until it is replaced"
            self._log.error(events.HELPERS_LOST, reason=self.problem)
            try:
                await asyncio.to_thread(self.launcher.restore)
            except HelperFailed as error:
                self._log.error(events.HELPERS_LOST, reason=f"{error}; the daemon ends, to be started again")
                self._on_lost()
                return
            self.problem = ""
            self._log.info(events.HELPERS_BACK)
            await asyncio.sleep(PAUSE_SECONDS)
