"""``python -m tests.soak.daemon run …``: the daemon as it is, but that it collects its garbage when it is told to.

What a collection would free is no leak, and comes and goes by ten thousand blocks: a soak tells it before it looks.
"""

import gc
import signal

from cri_proxy.cli.main import main as cri_proxy

COLLECT = signal.SIGRTMIN


def collect_when_told() -> None:
    """All of it, and the free lists (gcmodule.c empties them in a full collection)."""
    signal.signal(COLLECT, lambda *_: gc.collect() and None)


def main() -> None:
    """Be ``cri-proxy``."""
    collect_when_told()
    cri_proxy()


if __name__ == "__main__":
    main()
