"""The measures of benchmarks/placement.py with their bounds, and the tally that their figures come from."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Tally:
    """What was counted: how often a thing could have happened, and how often it did."""

    counts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    occasions: Counter[str] = field(default_factory=Counter)
    worst: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, happened: float, of: int = 1) -> None:
        """Count an occasion, and what came of it."""
        self.counts[name] += happened
        self.occasions[name] += of

    def at_least(self, name: str, value: float) -> None:
        """Keep the greatest value."""
        self.worst[name] = max(self.worst.get(name, value), value)


@dataclass(frozen=True)
class Measure:
    """A line of the table."""

    name: str
    title: str
    bound: str
    keeps: Callable[[float], bool]
    form: str = "share"  # share of occasions, "excess" above the least, or "mean" over occasions


MEASURES = (
    Measure("more packages", "spanning placements on more packages than necessary", "0", lambda x: x == 0),
    Measure("more nodes", "... on more nodes than necessary", "0", lambda x: x == 0),
    Measure("more nodes after moves", "... likewise, where sharers had to move up", "0", lambda x: x == 0),
    Measure("more caches", "... on more L3 domains than necessary", "0", lambda x: x == 0),
    Measure("torn cores", "... with needlessly torn cores", "0", lambda x: x == 0),
    Measure("farther nodes", "... on nodes farther apart than necessary", "0", lambda x: x == 0),
    Measure("memory elsewhere", "... with memory off their CPUs' nodes", "0", lambda x: x == 0),
    Measure("whole domain", "domain-sized containers beside small sharers that get a domain", "all", lambda x: x == 1),
    Measure("newly shared cores", "cores shared with strangers above the least", "< 5 %", lambda x: x < 0.05, "excess"),
    Measure("squeezed", "Burstable squeezed below the limit though a node has room", "< 0.5 %", lambda x: x < 0.005),
    Measure("squeezed unchecked", "... without any slow check", "< 0.5 %", lambda x: x < 0.005),
    Measure("best effort on two", "best effort on two CPUs or fewer beside six idle", "< 1 %", lambda x: x < 0.01),
    Measure("best effort on two unchecked", "... without any slow check", "< 3 %", lambda x: x < 0.03),
    Measure(
        "spread of load",
        "load of the fullest node less the emptiest, above the least",
        "< 0.2",
        lambda x: x < 0.2,
        "mean",
    ),
    Measure("away", "sharers that a fresh decision places better when churn stops", "any", lambda x: x >= 0),
    Measure("away after checks", "... after as many slow checks as there are sharers", "0", lambda x: x == 0),
    Measure("packed span", "pack: owners that span domains", "<= 0.5 %", lambda x: x <= 0.005),
    Measure("packed fits", "pack: largest container that fits 16 CPUs, on average", ">= 12", lambda x: x >= 12, "mean"),
    Measure("reserve", "placed on reserved CPUs that are full, though others are free", "0", lambda x: x == 0),
    Measure("reserve after checks", "... likewise after slow checks", "0", lambda x: x == 0),
    Measure("sockets", "load of two sockets, memory expander at one", "<= 1.2", lambda x: x <= 1.2),
    Measure("pods", "pod-level pods: granted over requested", "1", lambda x: x == 1),
    Measure(
        "unlike kubelet",
        "spans per 100 owners at 85 % above the kubelet's, worst machine",
        "<= 0.2",
        lambda x: x <= 0.2,
    ),
    Measure(
        "uneven", "below half: containers in the fullest domain beyond one more than in others", "0", lambda x: x == 0
    ),
    Measure("pods apart", "pods of an idle machine on two sockets", "0", lambda x: x == 0),
    Measure("resizes", "resizes that left CPUs they could keep, or were refused with room", "0", lambda x: x == 0),
)


def value_of(measure: Measure, tally: Tally) -> float:
    """The figure of one line."""
    if measure.name in tally.worst:
        return tally.worst[measure.name]
    happened, of = tally.counts[measure.name], tally.occasions[measure.name]
    return (happened - of) / max(1, of) if measure.form == "excess" else happened / max(1, of)


def basis_of(measure: Measure, tally: Tally) -> str:
    """What the figure of one line is made of, in words."""
    if measure.name in tally.worst:
        return "the worst"
    happened, of = tally.counts[measure.name], tally.occasions[measure.name]
    words = {
        "share": f"{happened:.0f} of {of:.0f}",
        "excess": f"{happened:.0f} for {of:.0f}",
        "mean": f"mean of {of:.0f}",
    }
    return words[measure.form]
