#!/usr/bin/python3
"""Write from the code: tables of docs (options, annotations, ...), JSON schemas, the keys of the admission policy.

    packaging/reference.py             write them
    packaging/reference.py --check     only compare them; exit status 1 when a page is out of date

The text around a table is written by hand, in the page.
"""

import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from cri_proxy import link_file
from cri_proxy.cli import select
from cri_proxy.cli.device_actions import request
from cri_proxy.cli.help.schemas import SCHEMAS
from cri_proxy.cli.hint_actions import generate, merge
from cri_proxy.cli.hint_requests import cpu, devices, memory, offers
from cri_proxy.config.model import known_options
from cri_proxy.config.option import values_text
from cri_proxy.config.values import show_value
from cri_proxy.cri.annotations.foreign_rows import EVERY_ROW as ANNOTATIONS
from cri_proxy.cri.annotations.resource_managers import OF_PEERS
from cri_proxy.cri.annotations.table import TABLE
from cri_proxy.doctor.catalog import FindingCode
from cri_proxy.inventory import file as inventory
from cri_proxy.kubelet.distributions import DISTRIBUTIONS
from cri_proxy.metrics.catalog import TABLE as METRICS
from cri_proxy.simulate.scenario import devices as attached
from cri_proxy.simulate.scenario import parse, steps
from policies.devices import ALLOCATE_HINT, CONDITION, HINT, JOINT, JOINT_ALLOCATE, PARTITION_SPEC, SELECTOR, SPEC
from sysfs.descriptions import machine
from sysfs.descriptions.memory import MEMORY_NODE
from sysfs.documents.table import KeyRow

DIRECTORY = Path(__file__).resolve().parent.parent / "docs" / "reference"
POLICY = DIRECTORY.parent.parent / "packaging" / "kubernetes" / "annotation-keys.yaml"
ALERTS = POLICY.parents[1] / "monitoring" / "alerts.yaml"
SCHEMA_DIRECTORY = DIRECTORY.parent / "schemas"
VERSIONS = DIRECTORY / "versions.md"
NOTES = DIRECTORY.parent.parent / ".cache" / "tried.jsonl"
RULE = "|---|"
# The tables of documents by the place at which they stand; lists end in [], and <> is any key.
DOCUMENTS: Mapping[str, tuple[KeyRow, ...]] = {
    "inventory": inventory.NODE.rows,
    "inventory.gpu[]": inventory.DEVICE.rows,
    "inventory.gpu[].vf_groups[]": inventory.VF_GROUP.rows,
    "inventory.gpu[].vf_groups[].vfs[]": inventory.VF.rows,
    "inventory.partitions.<>[]": inventory.PARTITION.rows,
    "inventory.links": link_file.LINKS.rows,
    "select": select.DOCUMENT.rows,
    "devices": request.DOCUMENT.rows,
    "devices.in_use.gpu[]": request.HELD.rows,
    JOINT_ALLOCATE: JOINT.rows,
    f"{ALLOCATE_HINT}.<>": HINT.rows,
    f"{ALLOCATE_HINT}.<>.selector": SELECTOR.rows,
    f"{ALLOCATE_HINT}.<>.selector.matchExpressions[]": CONDITION.rows,
    PARTITION_SPEC: SPEC.rows,
    "generate": generate.DOCUMENT.rows,
    "generate.topology": cpu.TOPOLOGY.rows,
    "generate.cpu": cpu.CPU.rows,
    "generate.memory": memory.MEMORY.rows,
    "generate.memory.allocated": memory.ASSIGNED.rows,
    "generate.devices.<>": devices.DEVICES.rows,
    "merge": merge.MERGE.rows,
    "merge.providers[].<>[]": offers.HINT.rows,
    "machine": machine.DESCRIPTION.rows,
    "machine.memory_nodes[]": MEMORY_NODE.rows,
    "machine.pci[]": machine.DEVICE.rows,
    "scenario": parse.SCENARIO.rows,
    "scenario.steps[].create": steps.CREATE.rows,
    "scenario.steps[].create.containers[]": steps.CONTAINER.rows,
    "scenario.steps[].create.containers[].mounts[]": attached.MOUNT.rows,
    "scenario.steps[].update": steps.UPDATE.rows,
    "scenario.steps[].restart": steps.RESTART.rows,
    "scenario.steps[].tamper": steps.TAMPER.rows,
}


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
    for code in FindingCode:
        yield f"`{code}`", code.severity, code.text


def documents() -> Iterator[tuple[str, ...]]:
    """Yield the place of each key in a document, whether it has to be there, its other names, and its meaning."""
    for place, rows in DOCUMENTS.items():
        for row in rows:
            also = ", ".join(f"`{name}`" for name in row.also)
            yield f"`{place}.{row.key}`", "yes" if row.missing else "", also, row.text


def distributions() -> Iterator[tuple[str, ...]]:
    """Yield name, place of settings, socket of its own containerd, what else to know, and what was tried."""
    for each in DISTRIBUTIONS:
        remark = f"impossible: {each.why_not}" if each.why_not else each.remark
        yield each.name, each.place, f"`{each.runtime}`" if each.runtime else "", remark, each.tried


PAGES: Mapping[str, Callable[[], Iterator[tuple[str, ...]]]] = {
    "options.md": options,
    "annotations.md": annotations,
    "metrics.md": metrics,
    "findings.md": findings,
    "documents.md": documents,
    "../distributions.md": distributions,
}


def with_rows(page: str, rows: Iterator[tuple[str, ...]]) -> str:
    """Return the page with these rows in its last table."""
    lines = page.split("\n")
    start = max(i for i, line in enumerate(lines) if line.startswith(RULE)) + 1
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    return "\n".join([*lines[:start], *(f"| {' | '.join(row)} |" for row in rows), *lines[end:]])


def with_notes(page: str, notes: Path) -> str:
    """Return the page of versions with what stages of the tests have noted since (tests/tried.py), by its last day."""
    lines = page.split("\n")
    start = max(i for i, line in enumerate(lines) if line.startswith(RULE)) + 1
    rows = [tuple(line.strip("| ").split(" | ")) for line in lines[start:] if line.startswith("|")]
    rows += [tuple(json.loads(line)) for line in (notes.read_text().splitlines() if notes.exists() else ())]
    last: dict[tuple[str, ...], str] = {}
    for *what, when in rows:
        last[tuple(what)] = max(when, last.get(tuple(what), ""))
    return with_rows(page, ((*what, last[what]) for what in sorted(last)))


def with_keys(policy: str) -> str:
    """Return the admission policy with the keys of the daemon's table in its lists."""
    lists = {
        "keys": {key for row in TABLE for key in row.keys} | OF_PEERS,
        "mapKeys": {key for row in TABLE if row.by_container_only for key in row.keys},
    }
    for name, keys in lists.items():
        listed = textwrap.indent(textwrap.fill(repr(sorted(keys)), 112, break_on_hyphens=False), " " * 6)
        policy = re.sub(rf"(- name: {name}\n    expression: >-\n)(?: {{6}}.*\n)+", rf"\g<1>{listed}\n", policy)
    return policy


def with_runbooks(rules: str) -> str:
    """Return the alert rules with runbooks below the address of the documentation."""
    urls = tomllib.loads((ALERTS.parents[2] / "pyproject.toml").read_text())["project"]["urls"]
    return re.sub(r"(runbook_url: )\S+(/alerts\.md#)", rf"\g<1>{urls['Documentation']}\g<2>", rules)


def schema_text(name: str, _: str) -> str:
    """Return the text of a schema, whatever it was before."""
    return f"{json.dumps(SCHEMAS[name](), indent=1)}\n"


def main(*, is_check: bool) -> int:
    """Write or compare all pages, and the policy."""
    stale = 0
    written: dict[Path, Callable[[str], str]] = {
        **{DIRECTORY / name: partial(with_rows, rows=rows()) for name, rows in PAGES.items()},
        **{SCHEMA_DIRECTORY / f"{name}.json": partial(schema_text, name) for name in SCHEMAS},
        POLICY: with_keys,
        ALERTS: with_runbooks,
    }
    if not is_check:  # a note makes no page stale: it waits for the next `make docs`
        written[VERSIONS] = partial(with_notes, notes=NOTES)
    for path, change in written.items():
        before = path.read_text() if path.exists() else ""
        after = change(before)
        if before != after and is_check:
            print(f"{path.resolve().relative_to(POLICY.parents[2])} is out of date: run make docs", file=sys.stderr)
            stale = 1
        elif before != after:
            path.write_text(after)
    return stale


if __name__ == "__main__":
    raise SystemExit(main(is_check="--check" in sys.argv))
