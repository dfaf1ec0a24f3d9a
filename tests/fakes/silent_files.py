"""Files that do not answer in time, told by the subjects of calls about them."""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from cri_proxy.file_workers import PLAIN_THREADS, FilesFailed
from cri_proxy.intercept.cdi_devices import LOOK_SECONDS

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class SilentFiles:
    """Implements ``FileCalls``: calls about ``subjects`` fail, others are made."""

    def __init__(self, *subjects: str) -> None:
        self.subjects = subjects

    async def run(self, subject: str, function: Callable[[*Ts], T], *args: *Ts, within_seconds: float) -> T:
        assert within_seconds <= LOOK_SECONDS
        if subject in self.subjects:
            raise FilesFailed(subject, "no answer")
        return await PLAIN_THREADS.run(subject, function, *args, within_seconds=within_seconds)
