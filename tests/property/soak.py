"""Plays lives for as long as you like: ``python -m tests.property.soak --steps 200000 --seed 7``.

Each life is told by a seed: SEED, SEED + 1 and so on, in turn a policy on a large machine, one on a small machine with
the model beside it, and a whole node. Prints how far it is; a life that breaks a rule is printed with its seed, and a
policy's history cut down to the events that are needed. ``--kind`` and ``--lives 1`` play one life again.
Exit status 1 when a rule was broken.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count, cycle

from tests.property.life import Kind, Life, Violation, live, shortest

STEPS_OF_A_LIFE = {Kind.LARGE: 300, Kind.SMALL: 300, Kind.NODE: 200}
REPORT_SECONDS = 15.0


def lives(seed: int, kinds: Sequence[Kind]) -> Iterator[Life]:
    for kind, number in zip(cycle(kinds), count(seed), strict=False):
        yield Life(kind, number, STEPS_OF_A_LIFE[kind])


def tell(violation: Violation) -> None:
    """Print what was broken, how to see it again, and for a policy the shortest history that shows it."""
    life = violation.life
    print(f"\nBROKEN: {violation}")
    print(f"again: python -m tests.property.soak --kind {life.kind} --seed {life.seed} --lives 1")
    if life.kind is Kind.NODE:
        return
    events = shortest(life, violation.events)
    print(f"{len(events)} of {len(violation.events)} events are needed:")
    for event in events:
        print(f"  {event}")


def soak(arguments: argparse.Namespace) -> int:
    started = told = time.monotonic()
    steps = broken = 0
    kinds = [Kind(arguments.kind)] if arguments.kind else list(Kind)
    for number, life in enumerate(lives(arguments.seed, kinds)):
        if steps >= arguments.steps or number == arguments.lives or broken >= arguments.most:
            break
        try:
            steps += live(life)
        except Violation as violation:
            broken += 1
            steps += violation.step
            tell(violation)
        if time.monotonic() - told > REPORT_SECONDS:
            told = time.monotonic()
            print(f"{steps} steps, {number + 1} lives, {broken} broken, {told - started:.0f} s", flush=True)
    print(f"{steps} steps, {broken} broken lives, {time.monotonic() - started:.0f} s, from seed {arguments.seed}")
    return broken


def main(words: Sequence[str]) -> int:
    """Read the command line and play; 1 when a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.property.soak", description=__doc__)
    parser.add_argument("--steps", type=int, default=200_000, help="how many steps to play")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first life")
    parser.add_argument("--kind", choices=[kind.value for kind in Kind], help="play lives of this kind only")
    parser.add_argument("--lives", type=int, default=-1, help="stop after so many lives")
    parser.add_argument("--most", type=int, default=10, help="stop after so many broken lives")
    return int(soak(parser.parse_args(words)) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
