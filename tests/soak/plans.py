"""The soaks of CI: what is played in each, and how one is played in a process of its own."""

import asyncio
import os
import signal
from collections.abc import Mapping
from dataclasses import replace

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # each connection would tell of the runtime's restarts

from tests.soak.grounds import Wanted
from tests.soak.soak import MIX, Plan, Result, soak

HALF = {name: (count + 1) // 2 for name, count in MIX["embedded"].items()}
LIVES = {"turnover": 40}


def mutant(*leaks: str) -> Wanted:
    return Wanted(module=("tests.soak.mutants", ",".join(leaks)))


# They begin in this order: the longest first.
PLANS: Mapping[str, Plan] = {
    "splice": Plan(3, seed=1),
    "grpc": Plan(0.75, seed=2, wanted=Wanted("grpc"), mix=HALF),
    "splice before containerd": Plan(0.5, "containerd", seed=3, wanted=Wanted("splice")),
    "grpc before containerd": Plan(0.5, "containerd", seed=3, wanted=Wanted("grpc")),
    "small things kept": Plan(0, seed=4, wanted=mutant("request", "descriptor", "task"), mix=LIVES),
    "grants kept": Plan(0, seed=5, wanted=mutant("grant"), mix=LIVES, rest_seconds=5),
}


def soaked(name: str) -> tuple[Result, tuple[str, ...]]:
    """What came of the soak of this name, and what it told on the way. SIGTERM ends it, and what it started."""
    told: list[str] = []

    async def play() -> Result:
        task = asyncio.current_task()
        if task is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await soak(replace(PLANS[name], tell=told.append))

    return asyncio.run(play()), tuple(told)
