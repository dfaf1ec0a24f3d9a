"""What an attack may cost the daemon, and what it did cost."""

from dataclasses import dataclass, fields

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that an attack may cost. A story that allows more, or less, says why at the line.

    The unit of time is the CPU time of a loop of a million rounds in plain Python, measured in the daemon's process in
    the same run (``tests/fakes/reference.py``): tens of milliseconds.
    """

    turn_references: float = 1.0  # of CPU between two beats of the loop: other calls wait that long
    stall_references: float = 60.0  # by the clock, so loosely: a call into the kernel that blocks the loop
    peak_bytes: int = 48 * MIB
    kept_bytes: int = 12 * MIB  # after the pods have gone, and the collector has been
    log_bytes: int = 64 << 10
    state_bytes: int = 8 * MIB  # SQLite checkpoints its log at 4 MiB


@dataclass(frozen=True, slots=True)
class Cost(Bounds):
    """What it was."""

    def beyond(self, bounds: Bounds) -> list[str]:
        """What is above its bound, as sentences."""
        pairs = ((field.name, getattr(self, field.name), getattr(bounds, field.name)) for field in fields(Bounds))
        return [f"{name}: {cost:,.1f}, at most {bound:,.1f}" for name, cost, bound in pairs if cost > bound]
