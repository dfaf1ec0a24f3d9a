"""Read and write the words of the cost format: names with ranges, costs, costs without a colon."""

import re
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import chain

from policies.devices.costs.model import CostError, CostLine, CostListing, CostValue, name_order

# The format's own type of a cost is int32.
MAX_COST = (1 << 31) - 1
# A range names CPUs or devices of one machine; Linux has at most 8,192 CPUs (CONFIG_NR_CPUS).
MAX_RANGE = 8192
# A resource name has at most 253 + 63 characters, and an instance's name is one of its own.
MAX_NAME = 512

_COST = re.compile(r"\d{1,10}(\.\d{1,6})?\Z", re.ASCII)
# What the kernel numbers: cpu03 is no other CPU than cpu3. Instances of other types are told apart as they are written.
_KERNEL_STEMS = ("cpu/cpu", "memory/node")
_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<low>\d+)(-(?P<high>\d+))?\Z", re.ASCII)
# RFC 9562: groups of 8, 4, 4, 4 and 12 digits, of which the last two may have no letter and look like a range.
_UUID = re.compile(r".*[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}\Z", re.ASCII | re.IGNORECASE)
_DASHED = re.compile(r"(?P<name>.*[^\d/-])-\Z")
_BARE_COST = re.compile(r"(?P<indent> *)(?P<dash>- +)?(?P<cost>[\d.]+)(?P<rest> *(#.*)?)\Z")
_ITEM = re.compile(r"(?P<indent> *)- ")
_EMPTY = re.compile(r"\s*(#.*)?\Z")


def names_of(token: str, line: int = 0) -> tuple[str, ...]:
    """Return the instances that a name stands for: one, or every member of a range. Raises CostError.

    >>> names_of("example.com/foo/id0-2")
    ('example.com/foo/id0', 'example.com/foo/id1', 'example.com/foo/id2')
    >>> names_of("intel.com/fpga/fpga-2"), names_of("cpu/cpu03")
    (('intel.com/fpga/fpga2',), ('cpu/cpu3',))
    """
    try:
        return _names_of(token)
    except CostError as error:
        raise CostError(line, error.token, error.problem) from None


@lru_cache(maxsize=1024)  # the same ranges stand under most sources, and their names are kept once
def _names_of(token: str) -> tuple[str, ...]:
    kind, _, instance = token.rpartition("/")
    if not kind or not instance or len(token) > MAX_NAME or any(c.isspace() or c == "," for c in token):
        raise CostError(0, _shown(token), "expected one name of the form TYPE/INSTANCE")
    numbered = None if _UUID.match(instance) else _NUMBERED.match(instance)
    if numbered is None:
        return (token,)
    stem, low, high = numbered["stem"], numbered["low"], numbered["high"]
    if dashed := _DASHED.match(stem):
        stem = dashed["name"]
    elif stem.endswith("-"):
        raise CostError(0, token, "expected a name that ends in N or N-M, with a letter before it")
    is_kernels = f"{kind}/{stem}" in _KERNEL_STEMS
    if high is None:
        return (f"{kind}/{stem}{low.lstrip('0') or '0' if is_kernels else low}",)
    return tuple(f"{kind}/{stem}{number}" for number in _range(token, low, high, has_zeros=not is_kernels))


def _range(token: str, low: str, high: str, *, has_zeros: bool) -> Iterator[str]:
    """Return the numbers of a range, with leading zeros where both ends have as many digits and they may stay."""
    first, last = int(low[-20:]), int(high[-20:])
    if max(len(low), len(high)) > 20 or first > last:
        raise CostError(0, _shown(token), "the range must begin with the smaller number, of at most 20 digits")
    if last - first >= MAX_RANGE:
        raise CostError(0, token, f"a range of {last - first + 1} names; at most {MAX_RANGE} are read")
    width = len(low) if has_zeros and len(low) == len(high) else 0
    return (f"{number:0{width}d}" for number in range(first, last + 1))


def is_plain_name(instance: str) -> bool:
    """Return whether this text names an instance, below some type, and is read as it is written.

    >>> is_plain_name("mlx5_0"), is_plain_name("mlx5_0-3"), is_plain_name("a/b"), is_plain_name("")
    (True, False, False, False)
    """
    try:
        return "/" not in instance and instance.isprintable() and names_of(f"type/{instance}") == (f"type/{instance}",)
    except CostError:
        return False


def unique_names(tokens: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """Return the instances that these names, each with its line, stand for. Raises CostError for one named twice."""
    found: dict[str, int] = {}
    for token, line in tokens:
        for name in names_of(token, line):
            if name in found:
                raise CostError(line, token, f"{name} is already named{f' on line {found[name]}' * (found[name] > 0)}")
            found[name] = line
    return tuple(found)


def cost_of(token: str, line: int = 0) -> CostValue:
    """Return the value of a cost. Raises CostError.

    >>> cost_of("10"), cost_of("2.5")
    (10, Fraction(5, 2))
    """
    text = token.strip()
    if text.startswith("-") and _COST.match(text[1:]):
        raise CostError(line, text, "a cost cannot be negative; expected a number from 0")
    if not text.isascii() or not re.fullmatch(r"[\d.]+", text) or text.count(".") > 1:
        raise CostError(line, _shown(token), f"expected a cost, a number from 0 to {MAX_COST}")
    # YAML 1.1 reads 010 as 8.
    if len(text) > 1 and text[0] == "0" and text[1].isdigit():
        raise CostError(line, _shown(token), "may be meant as an octal number; write the cost without leading zeros")
    if not _COST.match(text) or Fraction(text) > MAX_COST:
        raise CostError(line, _shown(token), f"expected a cost of at most {MAX_COST}, with up to 6 decimals")
    value = Fraction(text)
    return value.numerator if value.denominator == 1 else value


def cost_line(source: tuple[str, int], cost: tuple[str, int], targets: Sequence[tuple[str, int]]) -> CostLine:
    """Return the line that a source, its cost and its targets make; each comes with its line. Raises CostError."""
    value = cost_of(*cost)
    if not targets:
        raise CostError(cost[1], cost[0], "no targets stand under this cost")
    names = [names_of(*target) for target in targets]
    found = names[0] if len(names) == 1 else tuple(dict.fromkeys(chain.from_iterable(names)))
    return CostLine(names_of(*source), value, found, cost[1])


def with_colons(text: str) -> str:
    r"""Return the text with a colon after each cost that lacks it, line by line.

    Such a cost is a number alone on its line, above a list that stands under it.

    >>> with_colons("foo/id0:\n  - 20\n    - cpu/cpu1\n")
    'foo/id0:\n  - 20:\n    - cpu/cpu1\n'
    """
    lines = text.split("\n")
    below = -1  # the indent of the next line that begins an item; -1 = it does not
    # From the last line up: a number is a cost by the list below it.
    for i in range(len(lines) - 1, -1, -1):
        line = lines[i]
        bare = _BARE_COST.match(line.rstrip("\r"))
        if bare and below > len(bare["indent"]) - (bare["dash"] is None):
            lines[i] = f"{bare['indent']}{bare['dash'] or ''}{bare['cost']}:{bare['rest']}"
        if not _EMPTY.match(line):
            item = _ITEM.match(line)
            below = len(item["indent"]) if item else -1
    return "\n".join(lines)


def cost_text(listing: CostListing) -> str:
    """Return the listing in the cost format, sources and targets joined to ranges. Raises CostError.

    Instances that no line has are sources without costs. The error names an instance whose name would be read as
    another one.
    """
    blocks: dict[str, list[str]] = {}
    for line in listing.lines:
        under = [f"  - {_written_cost(line.cost)}:", *(f"    - {token}" for token in ranges_of(line.targets))]
        for source in ranges_of(line.sources):
            blocks.setdefault(source, []).extend(under)
    named = {name for line in listing.lines for name in (*line.sources, *line.targets)}
    for source in ranges_of(name for name in listing.present if name not in named):
        blocks[source] = []
    return "".join(f"{source}:\n" + "".join(f"{row}\n" for row in rows) for source, rows in blocks.items())


def ranges_of(names: Iterable[str]) -> list[str]:
    """Return the names with neighbours joined to ranges, ascending. Raises CostError.

    >>> ranges_of(["cpu/cpu2", "cpu/cpu0", "cpu/cpu1", "pci/0000:3b:00.0"])
    ['cpu/cpu0-2', 'pci/0000:3b:00.0']
    """
    runs: list[tuple[str, int, int]] = []
    for name in sorted(set(names), key=name_order):
        stem, number = _split(name)
        if runs and number >= 0 and (stem, number - 1) == (runs[-1][0], runs[-1][2]):
            runs[-1] = (stem, runs[-1][1], number)
        else:
            runs.append((stem, number, number))
    return [
        stem + ("" if first < 0 else f"{first}" if first == last else f"{first}-{last}") for stem, first, last in runs
    ]


def _split(name: str) -> tuple[str, int]:
    """Return a name's text and number; -1 where it is written as it is."""
    if names_of(name) != (name,):
        raise CostError(0, name, "the cost format reads this name as another one; rename the instance")
    numbered = _NUMBERED.match(name)
    if numbered is None or str(int(numbered["low"])) != numbered["low"]:
        return name, -1
    return numbered["stem"], int(numbered["low"])


def _written_cost(cost: CostValue) -> str:
    """Return a cost as the format has it, rounded to 6 decimals."""
    return f"{float(cost):.6f}".rstrip("0").rstrip(".") if isinstance(cost, Fraction) else str(cost)


def _shown(token: str) -> str:
    return repr(token if len(token) <= 80 else f"{token[:77]}...")
