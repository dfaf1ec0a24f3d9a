"""Kills the daemon at its named points: ``python -m tests.faults.kill --from 1 --histories 20``.

Each history is told by a seed. By default every named point is killed at once a history, at an occurrence and with a
fate that the seed tells; ``--everything`` kills at every occurrence with every fate (minutes for each history).
``--point`` plays one point only. Prints what was broken and how to see it again. Exit status 1 when something was,
or when a named point was killed at in fewer than 20 histories (of those asked for).
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.fakes.lone_loop import run_alone
from tests.faults.afterlife import Chance, chances, relive
from tests.faults.living import Death, Living, a_life
from tests.faults.observed import AS_THEY_ARE, Parts
from tests.faults.points import POINTS

ENOUGH = 20


@dataclass(slots=True)
class Tally:
    """In which histories each point was killed at, how many kills there were, and what was lost."""

    histories: dict[str, set[int]] = field(default_factory=dict)
    kills: int = 0
    losses: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        self.kills += other.kills
        self.losses += other.losses
        for point, seeds in other.histories.items():
            self.histories.setdefault(point, set()).update(seeds)

    def too_few(self, enough: int) -> tuple[str, ...]:
        return tuple(point for point in POINTS if len(self.histories.get(point, ())) < enough)


class OneOfEach:
    """Of each point one occurrence, every one as likely (reservoir sampling): the earlier choice is dropped."""

    def __init__(self, life: Living, seed: int, only: Sequence[str] = ()) -> None:
        self._life = life
        self._seed = seed
        self._randoms: dict[str, Random] = {}
        self._seen: Counter[str] = Counter()
        self._only = only

    def wants(self, point: str) -> bool:
        if self._only and point not in self._only:
            return False
        self._seen[point] += 1
        if self._randoms.setdefault(point, Random(f"{self._seed}/{point}")).randrange(self._seen[point]):
            return False
        self._life.deaths[:] = [death for death in self._life.deaths if death.point != point]
        return True


class _Again:
    """Of all points of a take-over one, every name as likely and every occurrence of it; and each ``missing`` one.

    ``missing`` are named points that nothing of this history has been killed at so far: the first occurrence is taken.
    """

    def __init__(self, random: Random, missing: set[str]) -> None:
        self._random = random
        self._missing = missing
        self._ranks: dict[str, float] = {}
        self._seen: Counter[str] = Counter()
        self._count = 0
        self._kept: list[int] = []
        self._chosen: list[int] = []

    def __call__(self, point: str) -> bool:
        if point in self._missing:
            self._missing.discard(point)
            self._kept.append(self._count)
        elif self._is_chosen(point):
            self._chosen = [self._count]
        else:
            return False
        self._count += 1
        return True

    def of(self, deaths: Sequence[Death]) -> list[Death]:
        return [deaths[number] for number in sorted({*self._kept, *self._chosen})]

    def _is_chosen(self, point: str) -> bool:
        rank = self._ranks.setdefault(point, self._random.random())
        if rank < max(self._ranks.values()):
            return False
        self._seen[point] += 1
        return not self._random.randrange(self._seen[point])


def kill_one_history(
    seed: int, tally: Tally, *, parts: Parts = AS_THEY_ARE, only: Sequence[str] = (), everything: bool = False
) -> None:
    """Play the history of this seed and every afterlife that is wanted; what is lost goes into the tally."""
    life = a_life(seed, parts)
    chosen = OneOfEach(life, seed, only)
    life.wants = (lambda point: not only or point in only) if everything else chosen.wants
    try:
        run_alone(life.whole_life())
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told with its seed
        tally.losses.append(f"seed {seed}, nobody killed, {life.doing}: {type(error).__name__}: {error}")
    missing = {point for point in POINTS if point.startswith("start: ")} - {death.point for death in life.deaths}
    for death in life.deaths:
        tally.histories.setdefault(death.point, set()).add(seed)
        for chance in chances(death) if everything else (_a_chance(death, seed),):
            again = _Again(Random(f"{seed}/{death.point}/again"), missing)
            _kill(death, chance, seed, tally, parts=parts, again=again)


def _a_chance(death: Death, seed: int) -> Chance:
    return Random(f"{seed}/{death.point}").choice(chances(death))


def _kill(death: Death, chance: Chance, seed: int, tally: Tally, *, parts: Parts, again: _Again) -> None:
    tally.kills += 1
    points = [death.point]
    try:
        for second in again.of(relive(death, chance, parts, wants=again)):
            tally.kills += 1
            tally.histories.setdefault(second.point, set()).add(seed)
            points[1:] = [second.point]
            relive(second, _a_chance(second, seed), parts)
    except Exception as error:  # noqa: BLE001 - as above
        what = f"{type(error).__name__}: {error}"
        where = ", then at ".join(map(repr, points))
        tally.losses.append(f"seed {seed}, killed at {where} ({death.doing}), {chance.fate}: {what}")


def main(words: Sequence[str]) -> int:
    """Read the command line and kill; 1 when something was lost or a point was killed at too rarely."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kill", description=__doc__)
    parser.add_argument("--from", type=int, default=1, dest="first", help="the seed of the first history")
    parser.add_argument("--histories", type=int, default=30, help="how many histories to play")
    parser.add_argument("--point", action="append", default=[], choices=POINTS, help="kill at this point only")
    parser.add_argument("--everything", action="store_true", help="every occurrence of a point, every fate")
    asked = parser.parse_args(words)
    tally, started = Tally(), time.monotonic()
    for seed in range(asked.first, asked.first + asked.histories):
        told = len(tally.losses)
        kill_one_history(seed, tally, only=asked.point, everything=asked.everything)
        for loss in tally.losses[told:]:
            print(f"LOST: {loss}\nagain: python -m tests.faults.kill --from {seed} --histories 1", flush=True)
    rare = () if asked.point else tally.too_few(min(ENOUGH, asked.histories * 2 // 3))
    for point in rare:
        print(f"too rare: {point!r} in {len(tally.histories.get(point, ()))} histories")
    seconds = time.monotonic() - started
    print(f"{tally.kills} kills at {len(tally.histories)} points, {len(tally.losses)} losses, {seconds:.0f} s")
    return int(bool(tally.losses or rare))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
