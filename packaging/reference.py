#!/usr/bin/python3
"""Write the tables of docs/reference from the code: options, annotations, metrics and findings.

    packaging/reference.py             write them
    packaging/reference.py --check     only compare them; exit status 1 when a page is out of date

The text around a table is written by hand, in the page.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cri_proxy.config.model import known_options
from cri_proxy.config.option import values_text
from cri_proxy.config.values import show_value
from cri_proxy.cri.annotations.foreign_rows import EVERY_ROW as ANNOTATIONS
from cri_proxy.doctor.catalog import CODES
from cri_proxy.metrics.catalog import TABLE as METRICS

DIRECTORY = Path(__file__).resolve().parent.parent / "docs" / "reference"
RULE = "|---|"


def options() -> Iterator[tuple[str, ...]]:
    """Yield key, values, default, unit, flag, meaning, and whether it can change while the daemon runs."""
    for known in known_options():
        option = known.option
        flag = f"`{option.flag}`" if option.flag else ""
        former = "".join(f"; formerly `{key}`, which is still read" for key in option.was)
        meaning = option.text + (f" ({option.remedy})" if option.remedy else "") + former
        values = values_text(known).replace("|", "\\|")
        default, reloadable = f"`{show_value(known.default)}`", "yes" if option.is_reloadable else "no"
        yield f"`{known.key}`", values, default, option.unit, flag, meaning, reloadable


def annotations() -> Iterator[tuple[str, ...]]:
    """Yield key, effect, examples, and what a pod can take with it from others; the keys of other projects last."""
    for row in ANNOTATIONS:
        examples = "<br>".join(f"`{example}`".replace("\n", " ⏎ ") for example in row.examples)
        old = f"; old name: `{'`, `'.join(row.keys[1:])}`" if row.keys[1:] else ""
        yield f"`{row.key}`{old}", row.text, examples, row.takes


def metrics() -> Iterator[tuple[str, ...]]:
    """Yield name, kind, labels with what bounds their values, and meaning."""
    for metric in METRICS:
        labels = "; ".join(f"`{label.name}`: {label.bound or ', '.join(label.values)}" for label in metric.labels)
        yield f"`{metric.name}`", metric.kind, labels, metric.text


def findings() -> Iterator[tuple[str, ...]]:
    """Yield code, severity and meaning, in the order in which doctor lists them."""
    for code in CODES:
        yield f"`{code.name}`", code.severity, code.text


PAGES: Mapping[str, Callable[[], Iterator[tuple[str, ...]]]] = {
    "options.md": options,
    "annotations.md": annotations,
    "metrics.md": metrics,
    "findings.md": findings,
}


def with_rows(page: str, rows: Iterator[tuple[str, ...]]) -> str:
    """Return the page with these rows in its last table."""
    lines = page.split("\n")
    start = max(i for i, line in enumerate(lines) if line.startswith(RULE)) + 1
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    return "\n".join([*lines[:start], *(f"| {' | '.join(row)} |" for row in rows), *lines[end:]])


def main(*, is_check: bool) -> int:
    """Write or compare all pages."""
    stale = 0
    for name, rows in PAGES.items():
        before = (DIRECTORY / name).read_text()
        after = with_rows(before, rows())
        if before != after and is_check:
            print(f"docs/reference/{name} is out of date: run make docs", file=sys.stderr)
            stale = 1
        elif before != after:
            (DIRECTORY / name).write_text(after)
    return stale


if __name__ == "__main__":
    raise SystemExit(main(is_check="--check" in sys.argv))
