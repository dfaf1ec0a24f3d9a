"""What a target of the fuzzer is made of."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fuzz.budget import Budget

CONFIGS: Final = Path(__file__).parent.parent.parent / "configs"
USUAL: Final = Budget()


@dataclass(frozen=True, slots=True)
class Target:
    """A parser. ``grown`` are what its inputs of growing length repeat, beside what they all do."""

    name: str
    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    budget: Budget = USUAL
    grown: tuple[bytes, ...] = ()


def text_of(data: bytes) -> str:
    """The text that a parser of text gets: protobuf and YAML readers refuse what is no UTF-8 before we see it."""
    return data.decode("utf-8", "replace")


def yaml_seeds(*names: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for name in names for path in sorted(CONFIGS.glob(name)))
