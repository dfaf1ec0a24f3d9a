"""What became of mutants: kept in a file from run to run, counted, and shown."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Self

from tests.mutation.mutants import Mutant

# 'hung' is a death too: the mutant ran into a limit of time or memory. 'untested': no test enters its function.
Status = Literal["killed", "hung", "survived", "untested"]


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant, and by which test; of one that survives, how many tests it passed."""

    name: str
    fingerprint: str
    status: Status
    by: str
    seconds: float

    @classmethod
    def of(cls, mutant: Mutant, status: Status, by: str, seconds: float) -> Self:
        return cls(mutant.name, mutant.fingerprint, status, by, round(seconds, 2))

    @property
    def is_dead(self) -> bool:
        return self.status in ("killed", "hung")


def load(path: Path) -> dict[tuple[str, str], Fate]:
    """What earlier runs have found, by name and fingerprint; of one that ran again, the last."""
    if not path.exists():
        return {}
    fates = (Fate(**json.loads(line)) for line in path.read_text().splitlines())
    return {(fate.name, fate.fingerprint): fate for fate in fates}


def append(path: Path, fate: Fate) -> None:
    """Note this at once: a run may be stopped at any time."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(fate)) + "\n")


def summary(chosen: Sequence[Mutant], fates: Mapping[str, Fate], listed: Collection[str]) -> Iterator[str]:
    """A table by area: how many there are, were run, died, are on the list, and survive unlisted."""
    yield f"{'area':<10} {'mutants':>8} {'run':>6} {'died':>6} {'listed':>7} {'survive':>8} {'died of run':>12}"
    areas = list(dict.fromkeys(mutant.area for mutant in chosen))
    for area in [*areas, "all"] if len(areas) > 1 else areas:
        mine = [mutant.name for mutant in chosen if area in (mutant.area, "all")]
        kinds = Counter(_kind(name, fates, listed) for name in mine)
        died, known, alive = kinds["died"], kinds["listed"], kinds["survives"]
        run = died + known + alive
        share = f"{100 * died / run:.1f} %" if run else "-"
        yield f"{area:<10} {len(mine):>8} {run:>6} {died:>6} {known:>7} {alive:>8} {share:>12}"


def _kind(name: str, fates: Mapping[str, Fate], listed: Collection[str]) -> str:
    if name in fates and fates[name].is_dead:
        return "died"
    if name in listed:
        return "listed"
    return "survives" if name in fates else "not run"


def unlisted(fates: Iterable[Fate], listed: Collection[str]) -> list[Fate]:
    """The survivors that have no reason."""
    return [fate for fate in fates if not fate.is_dead and fate.name not in listed]
