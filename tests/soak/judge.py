"""What a soak's samples say: what has grown with the containers that came and went, and what would have been seen.

Every sample is taken at rest: the same containers run, the same clients are connected, nothing is under way. So what
is *counted* (descriptors, tasks, rows) must come back to what it was: the least of the last third of the samples is
held against the least of the second third, and the median against the median. It has grown when both have: the least
alone may be a single dip, as where a stream was just being opened anew. What is an *amount* (bytes, blocks) breathes
with the allocators and the collector: the median of the slopes between all pairs of samples (Theil-Sen: a quarter of
the samples may be off) is held against an allowance. The first third is left out of both: caches fill, pools of
threads reach their size.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Final

LEAST_SAMPLES: Final = 9
"""Three in each third, and fifteen slopes."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The daemon at rest after so many lives of containers; values by the name of their series."""

    lives: int
    calls: int
    seconds: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Series:
    """What is looked at. ``allowance``: how much more there may be at the end than after the first third.

    ``is_amount``: judged by its slope. ``why`` says what the allowance is for.
    """

    name: str
    allowance: float = 0
    is_amount: bool = False
    why: str = ""


MEBIBYTE: Final = 1 << 20

SERIES: Final = (
    Series("anonymous bytes", 3.5 * MEBIBYTE, is_amount=True, why="room in arenas, of malloc and of gRPC's C core"),
    Series("blocks", 8000, is_amount=True, why="free lists until a full collection; decisions looked at last"),
    Series("store bytes", 3 * MEBIBYTE, is_amount=True, why="last decisions about who is gone; SQLite's own log"),
    Series("tasks"),
    Series("threads", 4, why="the pool for blocking reads starts a thread when none is idle, up to its size"),
    Series("sockets"),
    Series("files", 1, why="a cgroup that is just being read"),
    Series("pipes"),
    Series("other descriptors"),
    Series("inotify watches", 4, why="two containers that went since the last look at writes, a second ago"),
    Series("connections"),
    Series("calls in flight"),
    Series("event streams"),
    Series("grants"),
    Series("rows"),
    Series("surplus decisions"),
    Series("told directories"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one series: ``growth`` from the second third on. ``seen_from``: growth per life that is seen."""

    series: Series
    first: float
    last: float
    growth: float
    seen_from: float

    @property
    def is_leak(self) -> bool:
        return self.growth > self.series.allowance

    def __str__(self) -> str:
        verdict = "LEAK" if self.is_leak else "flat"
        return (
            f"{self.series.name:<18} {self.first:>12.0f} {self.last:>12.0f} {self.growth:>+11.0f} "
            f"{self.series.allowance:>9.0f} {self.seen_from:>10.4g}  {verdict}"
        )


HEADING: Final = f"{'':<18} {'first':>12} {'last':>12} {'growth':>11} {'allowed':>9} {'seen/life':>10}"


def judge(samples: Sequence[Sample]) -> tuple[Finding, ...]:
    if len(samples) < LEAST_SAMPLES:
        raise ValueError(f"{len(samples)} samples: at least {LEAST_SAMPLES} are needed, so run for longer")
    return tuple(_finding(series, samples) for series in SERIES if series.name in samples[0].values)


def _finding(series: Series, samples: Sequence[Sample]) -> Finding:
    values = [sample.values[series.name] for sample in samples]
    third = len(samples) // 3
    warm = samples[third:]
    lives = warm[-1].lives - warm[0].lives
    if series.is_amount:
        growth = _slope([(s.lives, s.values[series.name]) for s in warm]) * lives
    else:
        before, after = values[third:-third], values[-third:]
        growth = min(min(after) - min(before), median(after) - median(before))
    # the least that is more than the allowance: of what is counted, one more from a third to the next
    least = series.allowance if series.is_amount else series.allowance + 1
    span = lives if series.is_amount else samples[-third].lives - samples[third].lives
    return Finding(series, values[0], values[-1], growth, least / max(span, 1))


def _slope(points: Sequence[tuple[float, float]]) -> float:
    slopes = list(_slopes(points))
    return median(slopes) if slopes else 0.0


def _slopes(points: Sequence[tuple[float, float]]) -> Iterator[float]:
    for (x, y), (later_x, later_y) in combinations(points, 2):
        if later_x > x:
            yield (later_y - y) / (later_x - x)
