"""docs/transparency.md says which test proves what, in which places: held against the suite as it is, both ways."""

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.relay.stage import CLIENTS, VIAS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "transparency.md").read_text()
CONVERSATIONS = sorted((ROOT / "tests" / "relay").glob("test_*.py"))
EVERYWHERE = ("direct splice grpc", "grpcio h2")
# What a relay must keep, as it was asked for. A line of the page may go only when one goes here.
THINGS = (
    "request metadata",
    "-bin metadata",
    "deadlines",
    "no deadline",
    "cancellation of unary calls",
    "cancellation of streams",
    "status codes",
    "status messages",
    "status details",
    "reply metadata",
    "trailers",
    "16 MiB messages both ways",
    "large replies mixed with rewritten calls on one connection",
    "100 calls in flight",
    "30 open event streams",
    "order of events",
    "slow readers",
    "unknown methods and services",
    "half-closed streams",
    "PING",
    "GOAWAY",
    "SETTINGS changes",
    "tiny and huge windows",
    "compressed messages",
    "calls refused by us",
    "chunking does not matter",
    "malformed frames close both sides and nothing else",
    "v1alpha2 is UNIMPLEMENTED",
    "image service on its own socket",
    "modes of sockets",
    "runtime restart under connections",
    "own frames only between two frames of the other side",
    "flow control of a rewritten request",
    "data before the runtime is connected",
    "HPACK is followed through refused calls",
    "a held call holds its own stream only",
    "authority",
    "unknown fields survive",
    "outcomes of held calls",
    "both relays agree",
    "clients of one relay are apart",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the page: a thing, the test that proves it, and where that is played."""

    thing: str
    module: str
    test: str
    via: str
    clients: str


def rows() -> list[Row]:
    found = re.findall(r"^\| ([^|]+) \| `([\w/]+\.py)::(\w+)` \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
    return [Row(*(cell.strip() for cell in cells)) for cells in found]


def found_in(path: str) -> tuple[ModuleType, dict[str, object]]:
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    return module, {name: value for name, value in vars(module).items() if name.startswith(("test_", "Test"))}


def places(module: ModuleType, test: object) -> tuple[str, str]:
    """Where a test is played, by its marks: relays and clients; 'bytes' for one without sockets."""
    own = getattr(module, "pytestmark", [])
    marks: list[Any] = [getattr(mark, "mark", mark) for mark in (own if isinstance(own, list) else [own])]
    marks += getattr(test, "pytestmark", [])
    values = {mark.args[0]: mark.args[1] for mark in marks if mark.name == "parametrize"}
    if ("via", "client") in values:
        pairs = values["via", "client"]
        values |= {"via": list(dict(pairs)), "client": list(dict(pair[::-1] for pair in pairs))}
    return " ".join(values.get("via", ["bytes"])), " ".join(values.get("client", ["-"]))


def reasons() -> dict[str, str]:
    """Why tests are not played everywhere, by file or by file and test."""
    section = PAGE.partition("## Why not everywhere")[2]
    return dict(re.findall(r"^\| `([\w/.:]+)` \| ([^|]+) \|$", section, re.MULTILINE))


def conversations() -> Iterator[tuple[str, str, tuple[str, str]]]:
    """Every test of this folder but those of this file: file, name, places."""
    for path in CONVERSATIONS:
        if path.name != Path(__file__).name:
            name = str(path.relative_to(ROOT))
            module, tests = found_in(name)
            yield from ((name, test, places(module, value)) for test, value in tests.items())


def test_everything_that_was_asked_for_has_a_line() -> None:
    assert sorted(set(THINGS) ^ {row.thing for row in rows()}) == []


def test_a_line_names_a_test_and_where_it_is_played() -> None:
    wrong = []
    for row in rows():
        module, tests = found_in(row.module)
        is_ours = row.module.startswith("tests/relay/")
        if row.test not in tests or (is_ours and (row.via, row.clients) != places(module, tests[row.test])):
            wrong.append(row)
    assert wrong == []


def test_every_conversation_stands_on_the_page() -> None:
    named = {(row.module, row.test) for row in rows()}
    assert [f"{path}::{test}" for path, test, _ in conversations() if (path, test) not in named] == []


def test_what_is_not_played_everywhere_says_why() -> None:
    known = reasons()
    partly = {f"{path}::{test}" for path, test, where in conversations() if where != EVERYWHERE}
    assert sorted(name for name in partly if not {name, name.partition("::")[0]} & known.keys()) == []
    needed = partly | {name.partition("::")[0] for name in partly}
    assert sorted(known.keys() - needed) == []


def test_everywhere_means_what_the_stage_means_by_it() -> None:
    assert (" ".join(VIAS.args[1]), " ".join(CLIENTS.args[1])) == EVERYWHERE
