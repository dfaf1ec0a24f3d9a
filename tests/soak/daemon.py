"""``python -m tests.soak.daemon run …``: the daemon as it is, but that it gives back what it can when it is told to.

What a collection would free is no leak, and comes and goes by ten thousand blocks; so does the room that malloc keeps,
by megabytes. A soak tells it before it looks.
"""

import ctypes
import gc
import signal

from cri_proxy.cli.main import main as cri_proxy

COLLECT = signal.SIGRTMIN


def collect_when_told() -> None:
    """All garbage, with it the free lists (gcmodule.c empties them in a full collection), and malloc_trim(3)."""
    trim = ctypes.CDLL(None).malloc_trim

    def collect(number: int, frame: object) -> None:
        gc.collect()
        trim(0)

    signal.signal(COLLECT, collect)


def main() -> None:
    collect_when_told()
    cri_proxy()


if __name__ == "__main__":
    main()
