"""``cri-proxy hints compare``: print what every policy makes of every pair of hint lists of two providers."""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from cri_proxy.cli.arguments import argument
from cri_proxy.errors import CommandFailed
from policies.hints import MAX_NODES, POLICIES, ComparedPair, Verdict, compared_pairs, hint_lists
from sysfs.documents.forms import one_of

EXAMPLE = """\
cri-proxy hints compare
cri-proxy hints compare --policy restricted,strict-2019
cri-proxy hints compare --format csv > policies.csv
cri-proxy hints compare --nodes 1 --format md"""

FORMATS: Final = ("text", "csv", "md")
_LINES_AT_ONCE: Final = 4096


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "--nodes",
        type=int,
        choices=range(1, MAX_NODES + 1),
        default=2,
        help="NUMA nodes of the machine: 1, 2 (default) or 3, which has 4.8 million rows and takes a minute",
    )
    parser.add_argument(
        "--policy",
        type=argument(_policies),
        default=POLICIES,
        metavar="NAME,…",
        help=f"only these policies, in this order, of {', '.join(POLICIES)} (default: all)",
    )
    parser.add_argument("--format", choices=FORMATS, help="of the text: a table (default), CSV or Markdown")


def _policies(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, map(str.strip, text.split(","))))
    known = tuple(map(one_of(POLICIES), names))
    if not names or len(set(names)) < len(names):
        raise ValueError(f"expected policies with commas between them, each once, got {text!r}")
    return known


def run(args: argparse.Namespace) -> int:
    """Print the table row by row. Raises CommandFailed for formats that exclude each other."""
    from cri_proxy.cli.output import say

    if args.format and args.output != "text":
        raise CommandFailed(f"--format {args.format} and -o {args.output}: give one of them", 2)
    shown: tuple[str, ...] = args.policy
    at = [POLICIES.index(policy) for policy in shown]
    pairs = (
        replace(pair, verdicts=tuple(pair.verdicts[i] for i in at)) if shown != POLICIES else pair
        for pair in compared_pairs(args.nodes)
    )
    match args.format or args.output:
        case "csv":
            lines = _csv_lines(pairs, shown)
        case "json":
            lines = _json_lines(pairs, shown)
        case "yaml":
            names = columns(shown)
            lines = (f"- {json.dumps(_row(pair, names))}" for pair in pairs)
        case "md":
            lines = _markdown_lines(pairs, shown)
        case _:
            lines = _text_lines(pairs, max(len(known.text) for known in hint_lists(args.nodes)), shown)
    # In chunks: three nodes make 4.8 million rows, more than one text should hold.
    while chunk := list(islice(lines, _LINES_AT_ONCE)):
        say("\n".join(chunk))
    return 0


def columns(policies: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of the table as data."""
    parts = (f"{policy}_{part}" for policy in policies for part in ("affinity", "preferred", "admit"))
    return ("provider0", "provider1", *parts)


def _row(pair: ComparedPair, names: Sequence[str]) -> dict[str, str]:
    return dict(zip(names, _values(pair), strict=True))


def _values(pair: ComparedPair) -> list[str]:
    return [*pair.providers, *(text for v in pair.verdicts for text in (v.affinity, v.preferred, v.admit))]


def _csv_lines(pairs: Iterable[ComparedPair], policies: Sequence[str]) -> Iterator[str]:
    yield ",".join(columns(policies))
    # No value holds a comma or a quote.
    yield from (",".join(_values(pair)) for pair in pairs)


def _json_lines(pairs: Iterable[ComparedPair], policies: Sequence[str]) -> Iterator[str]:
    before, names = "[", columns(policies)
    for pair in pairs:
        yield f"{before}{json.dumps(_row(pair, names))}"
        before = ","
    yield "]"


def _markdown_lines(pairs: Iterable[ComparedPair], policies: Sequence[str]) -> Iterator[str]:
    rule = f"\n{'|---' * (len(policies) + 2)}|"
    return _counted_lines(pairs, policies, lambda texts: f"| {' | '.join(texts)} |", rule)


def _text_lines(pairs: Iterable[ComparedPair], label_width: int, policies: Sequence[str]) -> Iterator[str]:
    labels = max(label_width, len("provider 0"))
    widths = [labels, labels, *(max(len(policy), len("111 T yes")) for policy in policies)]
    return _counted_lines(pairs, policies, lambda texts: "  ".join(map(str.ljust, texts, widths)).rstrip())


def _counted_lines(
    pairs: Iterable[ComparedPair], policies: Sequence[str], line: Callable[[Iterable[str]], str], rule: str = ""
) -> Iterator[str]:
    """Yield a table for people, with how many each policy admits below it."""
    yield line(("provider 0", "provider 1", *policies)) + rule
    admitted: Counter[str] = Counter()
    for pair in pairs:
        yield line((*pair.providers, *map(_cell, pair.verdicts)))
        admitted.update(["rows", *(name for name, v in zip(policies, pair.verdicts, strict=True) if v.admit == "yes")])
    counts = ", ".join(f"{policy} {admitted[policy]}" for policy in policies)
    yield f"\nadmitted of {admitted['rows']}: {counts}"


def _cell(verdict: Verdict) -> str:
    return " ".join(text for text in (verdict.affinity, verdict.preferred, verdict.admit) if text)
