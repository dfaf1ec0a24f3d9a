"""``python -m tests.soak --minutes 30``: a daemon under a node's whole life, and whether anything in it grows.

A real ``cri-proxy run`` in front of the embedded runtime (117 containers on 256 CPUs) or of a private containerd (12
on two CPUs of this machine; needs root). Containers come and go, calls are cancelled, clients die, the runtime
restarts, the configuration changes. After every phase of equal work the node is at rest with the same containers,
and memory, descriptors, tasks, rows and grants are compared. Exit status 1 when something grew or was wrong.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # each connection would tell of the runtime's restarts

from tests.soak.grounds import Wanted
from tests.soak.soak import MIX, Plan, Result, soak


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long, about (default 30)")
    parser.add_argument("--relay", choices=("splice", "grpc"), default="splice")
    parser.add_argument("--runtime", choices=tuple(MIX), default="embedded")
    parser.add_argument("--seed", type=int, default=1, help="tells what happens, as far as time allows")
    given = parser.parse_args(words)
    result = asyncio.run(_run(Plan(given.minutes, given.runtime, given.seed, Wanted(given.relay), tell=_tell)))
    print("\n".join(result.lines()), flush=True)
    return 0 if result.is_good else 1


async def _run(plan: Plan) -> Result:
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await soak(plan)


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
