"""Sentences of decisions: bounded codes, and words that an operator understands."""

import ast
from pathlib import Path

import pytest

from policies import reasons
from policies.base import CpuKind, Grant
from policies.demand import Demand, Isolation
from sysfs.cpuset import CpuSet
from tests.unit.policies.build import request

TWO = Demand(CpuKind.SHARED, whole=2, shared_mcpu=500)


@pytest.mark.parametrize(
    ("demand", "text"),
    [
        (TWO, "2 exclusive CPUs and 500m shared"),
        (Demand(CpuKind.SHARED, whole=1), "1 exclusive CPU"),
        (Demand(CpuKind.SHARED, whole=1, isolation=Isolation.REQUIRE), "1 isolated CPU"),
        (Demand(CpuKind.SHARED, shared_mcpu=300), "300m shared"),
        (Demand(CpuKind.SHARED), "a CPU to share"),
    ],
)
def test_what_is_wanted_is_said_in_words(demand: Demand, text: str) -> None:
    assert reasons.wanted_text(demand) == text


def test_a_choice_names_the_next_pool_and_why_it_lost() -> None:
    text = reasons.pool_chosen("NUMA node #1", "500m shared", "socket #0", "depth").text
    assert text == "NUMA node #1 gives 500m shared; next would be socket #0, which is larger"
    assert reasons.pool_chosen("root", "500m shared", "", "").text == "root gives 500m shared"


def test_what_is_given_tells_isolated_cpus_from_ordinary_ones() -> None:
    assert reasons.given_text(1, 2, 300) == "1 exclusive CPU and 2 isolated CPUs and 300m shared"


@pytest.mark.parametrize(
    ("cpus", "start"), [("0-1", "runs on the reserved CPUs 0-1"), ("", "runs on the shared set of")]
)
def test_a_system_container_is_told_where_it_runs(cpus: str, start: str) -> None:
    assert reasons.reserved(CpuSet.parse(cpus), by_annotation=False).text.startswith(start)


def test_a_refusal_says_what_was_wanted_what_is_free_and_where() -> None:
    text = reasons.cpu_full(TWO, 2400, 2, "socket #0", 1400).text
    assert text == (
        "wanted 2 exclusive CPUs and 500m shared; free in root: 2400m shared capacity, 2 CPUs to own; "
        "most in socket #0: 1400m"
    )


def test_lifted_containers_are_named() -> None:
    text = reasons.lifted((Grant(request("web/nginx"), "root", CpuKind.SHARED),)).text
    assert text == "1 container moved to a wider pool to make room: web/nginx to root"


def test_the_codes_are_a_bounded_set_and_every_sentence_uses_one() -> None:
    tree = ast.parse(Path(reasons.__file__).read_text())
    made = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "Reason"]
    used = {getattr(reasons, ast.unparse(call.args[0])) for call in made}
    assert used == set(reasons.REASON_CODES)
    assert len(set(reasons.REASON_CODES)) == len(reasons.REASON_CODES)


def test_what_is_displaced_is_counted() -> None:
    assert reasons.displaced(CpuSet.parse("4-5"), 3).text == "CPUs 4-5 are no longer shared: 3 other containers changed"
    assert reasons.displaced(CpuSet(), 1).text == "1 other container changed"
