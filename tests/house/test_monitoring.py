"""The dashboard and the alert rules ask for metrics, labels and values that exist, and each alert is explained."""

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from cri_proxy.metrics.catalog import TABLE
from cri_proxy.metrics.metric import Metric
from tests.house.test_docs import anchors
from tests.house.tree import ROOT, files, shown

MONITORING = ROOT / "packaging" / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((MONITORING / "grafana-dashboard.json").read_text())
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
RUNBOOK = (ROOT / "docs" / "alerts.md").read_text()
DOCUMENTATION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Documentation"]
BY_NAME = {metric.name: metric for metric in TABLE}
ADDED_BY_PROMETHEUS = {"instance", "job"}
SERIES = re.compile(r"\b((?:cri_proxy|process)_[a-z_]+|up\b)(?:\{([^}]*)\})?")
OF_PROMETHEUS = "up"  # 1 for each target that answers
MATCHER = re.compile(r'([a-z_]+)(=~|!~|!=|=)"([^"]*)"')


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    yield from ((rule["alert"], rule["expr"]) for rule in RULES)
    yield from ((panel["title"], target["expr"]) for panel in panels() for target in panel["targets"])
    yield from ((note["name"], note["expr"]) for note in DASHBOARD["annotations"]["list"])


def row_of(name: str) -> Metric | None:
    """The row behind a series: a histogram has three kinds of series."""
    part = re.fullmatch(r"(.*)_(?:bucket|sum|count)", name)
    histogram = BY_NAME.get(part[1]) if part else None
    return BY_NAME.get(name) or (histogram if histogram is not None and histogram.kind == "histogram" else None)


def mistakes(expression: str) -> list[str]:
    """What of an expression the table does not know."""
    found, known = [], set(ADDED_BY_PROMETHEUS)
    for name, matchers in SERIES.findall(expression):
        metric = row_of(name)
        if metric is None and name == OF_PROMETHEUS:
            continue
        if metric is None:
            found.append(f"no metric {name}")
            continue
        values = {label.name: label.values for label in metric.labels}
        if metric.kind == "histogram":
            values["le"] = (*map(str, metric.buckets), "+Inf")
        known |= values.keys()
        for label, sign, value in MATCHER.findall(matchers):
            if label not in {*values, *ADDED_BY_PROMETHEUS}:
                found.append(f"{name} has no label {label}")
            elif values.get(label) and not any(re.fullmatch(value, each) for each in values[label]):
                found.append(f"{name}: {label}{sign}{value} is no value")
    grouped = {word for words in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for word in words.split(", ")}
    return [*found, *(f"grouped by {label}, which nothing there has" for label in sorted(grouped - known))]


@pytest.mark.parametrize(("where", "expression"), list(expressions()), ids=lambda text: str(text)[:40])
def test_every_query_asks_for_what_there_is(where: str, expression: str) -> None:
    assert SERIES.search(expression), where
    assert mistakes(expression) == []


@pytest.mark.parametrize(
    ("expression", "mistake"),
    [
        ("cri_proxy_redy == 0", "no metric cri_proxy_redy"),
        ("cri_proxy_ready_count == 0", "no metric cri_proxy_ready_count"),
        ('cri_proxy_cpus{pool="root"}', "cri_proxy_cpus has no label pool"),
        ('cri_proxy_cpus{kind=~"exclusiv|mine"}', "cri_proxy_cpus: kind=~exclusiv|mine is no value"),
        ("sum by (pool) (cri_proxy_cpus)", "grouped by pool, which nothing there has"),
    ],
)
def test_a_mistake_in_a_query_is_seen(expression: str, mistake: str) -> None:
    assert mistakes(expression) == [mistake]


def test_the_dashboard_shows_the_devices_of_cost_files_and_of_the_inventory() -> None:
    asked = " ".join(target["expr"] for panel in panels() for target in panel["targets"])
    assert {"cri_proxy_cost_devices", "cri_proxy_inventory_devices"} <= {name for name, _ in SERIES.findall(asked)}


def test_a_rate_is_taken_of_counters_only() -> None:
    pattern = re.compile(r"\b(?:rate|increase)\(((?:cri_proxy|process)_[a-z_]+)")
    asked = {name for _, expression in expressions() for name in pattern.findall(expression)}
    assert [name for name in sorted(asked) if getattr(row_of(name), "kind", "") not in ("counter", "histogram")] == []


def test_an_alert_says_how_grave_what_and_what_to_do() -> None:
    assert {rule["labels"]["severity"] for rule in RULES} == {"critical", "warning"}
    for rule in RULES:
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        assert rule["annotations"]["runbook_url"] == f"{DOCUMENTATION}/alerts.md#{rule['alert'].lower()}"


def test_a_runbook_is_a_section_of_a_page_here() -> None:
    for rule in RULES:
        page, anchor = rule["annotations"]["runbook_url"].removeprefix(f"{DOCUMENTATION}/").split("#")
        assert anchor in anchors(ROOT / "docs" / page)


def test_the_address_of_the_documentation_has_one_place() -> None:
    """Beside it stand only the rules, which `make docs` writes."""
    named = {shown(path) for path in files() if DOCUMENTATION.encode() in path.read_bytes()}
    assert named == {"pyproject.toml", "packaging/monitoring/alerts.yaml"}


def test_every_alert_has_its_section_and_no_section_is_left_over() -> None:
    assert re.findall(r"^## (\w+)$", RUNBOOK, re.MULTILINE) == [rule["alert"] for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_one_cause_is_one_alert(rule: dict[str, Any]) -> None:
    """What `or` joins has the same labels, so that both sides are one series; what is not summed up is pinned."""
    sides = rule["expr"].split(" or ")
    kept = [re.match(r"(?:min|sum) by (\([^)]*\)) \(", side) for side in sides]
    if len(sides) > 1:
        assert len({found[1] if found else side for side, found in zip(sides, kept, strict=True)}) == 1
    for name, matchers in SERIES.findall(rule["expr"].partition(" unless ")[0]) if " by (" not in rule["expr"] else []:
        if name == OF_PROMETHEUS:
            continue
        metric, pinned = row_of(name), {label for label, sign, _ in MATCHER.findall(matchers) if sign == "="}
        assert metric is not None
        assert {label.name for label in metric.labels} <= pinned, name


def test_a_store_that_fails_is_not_told_twice() -> None:
    by_name = {rule["alert"]: rule["expr"] for rule in RULES}
    assert 'part="store"' in by_name["CriProxyStoreDegraded"]
    assert (
        'unless on (instance, job) (min by (instance, job) (cri_proxy_part_healthy{part!="store"}) == 1)'
        in (by_name["CriProxyNotReady"])
    )


def test_the_words_of_an_alert_use_labels_that_its_expression_keeps() -> None:
    for rule in RULES:
        text, kept = " ".join(rule["annotations"].values()), set(ADDED_BY_PROMETHEUS)
        by = re.search(r"^(?:sum|histogram_quantile\([^(]*sum) by \(([^)]*)\)", rule["expr"])
        kept |= set(by[1].split(", ")) if by else set()
        assert set(re.findall(r"\$labels\.([a-z_]+)", text)) <= kept, rule["alert"]


def test_the_dashboard_can_be_imported_anywhere() -> None:
    """No id of one Grafana, the data source is asked for, panels have ids of their own and do not lie on each other."""
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert "id" not in DASHBOARD
    assert {panel["datasource"]["uid"] for panel in panels()} == {"${datasource}"}
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "instance"]


def test_no_panel_lies_on_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_what_an_alert_looks_at_is_shown_from_the_start() -> None:
    """A counter that appears with its first event hides it from increase()."""
    asked = {row_of(name) for rule in RULES for name in re.findall(r"increase\((\w+)", rule["expr"])}
    silent = [m.name for m in asked if m is not None and m.labels and not m.zeros]
    assert silent == []
