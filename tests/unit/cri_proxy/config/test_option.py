from dataclasses import dataclass, make_dataclass
from typing import Literal

import pytest

from cri_proxy.config.model import known_options
from cri_proxy.config.option import Known, options_of, read_value, values_text
from policies.options import Option, option
from policies.registry import POLICIES


@dataclass(frozen=True)
class Inner:
    rate: float = option(1.5, "rate", "How much", unit="seconds")


@dataclass(frozen=True)
class Model:
    """A model with one option of each type, in the order of the test below."""

    count: int = option(0, "count", "How many", was=("number",))
    inner: Inner = option(Inner(), "inner", "")
    ids: tuple[int, ...] = option((), "ids", "Which")
    kind: Literal["a", "b"] = option("a", "kind", "What")
    shift: int = option(0, "shift", "How far", least=-20, most=19)


def known_as(key: str) -> Known:
    return next(known for known in (*options_of(Model), *known_options()) if known.key == key)


def test_an_option_reloads_and_is_no_mapping_unless_it_says_so() -> None:
    row = Option("key", "text")
    assert (row.is_reloadable, row.takes_mapping, row.flag, row.was) == (True, False, "", ())


@pytest.mark.parametrize("known", [k for k in known_options() if k.option.takes_mapping], ids=lambda k: k.key)
def test_an_option_that_takes_a_mapping_reads_entries_and_says_so(known: Known) -> None:
    assert known.option.read is not None
    assert "mapping" in known.option.values or "{" in known.option.values


def test_a_model_gives_its_options_in_order_with_their_places() -> None:
    found = [(known.key, known.names, known.default) for known in options_of(Model)]
    assert found == [
        ("count", ("count",), 0),
        ("inner.rate", ("inner", "rate"), 1.5),
        ("ids", ("ids",), ()),
        ("kind", ("kind",), "a"),
        ("shift", ("shift",), 0),
    ]
    assert known_as("count").paths == (("count",), ("number",))


@pytest.mark.parametrize("kind", [complex, set[str], dict[str, int], tuple[int, str], Literal[1, 2], None])
def test_a_type_that_nothing_reads_fails_when_the_table_is_built(kind: object) -> None:
    wrong = make_dataclass("Wrong", [("field", kind, option(None, "wrong", "text"))])
    with pytest.raises(TypeError, match=r"option wrong: .* cannot be read"):
        list(options_of(wrong))


@pytest.mark.parametrize(
    ("key", "raw", "value"),
    [
        ("topologyAware.PinCPU", "Yes", True),
        ("topologyAware.PinCPU", "off", False),
        ("onPolicyError", "Reject", "reject"),
        ("topologyAware.L3Pools", "True", "true"),
        ("topologyAware.ReservedPoolNamespaces", "monitoring", ("monitoring",)),
        ("topologyAware.ReservedPoolNamespaces", ("a", "b-*"), ("a", "b-*")),
        ("http", "OFF", "off"),
        ("count", " 12 ", 12),
        ("shift", "-12", -12),
        ("inner.rate", "60", 60.0),
        ("ids", ("3", "4"), (3, 4)),
    ],
)
def test_a_value_is_read_by_its_options_type(key: str, raw: str | tuple[str, ...], value: object) -> None:
    assert read_value(known_as(key), raw) == value


@pytest.mark.parametrize(
    ("key", "raw", "problem"),
    [
        ("topologyAware.PinCPU", "maybe", "expected true or false, got 'maybe'"),
        ("topologyAware.PinCPU", ("true",), "expected true or false, got a list"),
        ("adopt", "kill", "expected one of pin, leave, got 'kill'"),
        (
            "topologyManager.policy",
            "strict",
            "expected one of none, best-effort, restricted, single-numa-node, got 'strict'",
        ),
        ("count", "banana", "expected a whole number from 0, got 'banana'"),
        ("count", "2.5", "expected a whole number"),
        ("count", "1_000", "expected a whole number"),
        ("count", "9" * 19, "expected a whole number"),
        ("count", "-5", "expected a whole number from 0, got '-5'"),
        ("ids", ("3", "x"), "expected a whole number from 0, got 'x'"),
        ("ids", ("3", "-1"), "expected a whole number from 0, got '-1'"),
        ("shift", "-21", "expected a whole number from -20 to 19, got '-21'"),
        ("inner.rate", "nan", "expected a number from 0, got 'nan'"),
        ("inner.rate", "-1", "expected a number from 0, got '-1'"),
        ("topologyAware.MovesPerCheck", "65", "expected a whole number from 0 to 64, got '65'"),
        ("annotationDomains", ("ok.io", "NOT ok"), "expected a DNS name"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(key: str, raw: str | tuple[str, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_value(known_as(key), raw)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("policy", " or ".join(f"`{policy.name}`" for policy in POLICIES)),
        ("count", "a whole number from 0"),
        ("inner.rate", "a number from 0"),
        ("topologyManager.max-allowable-numa-nodes", "0, or a whole number from 8"),
        ("ids", "a list"),
        ("topologyAware.ReservedPoolNamespaces", "a list of strings"),
    ],
)
def test_an_option_says_which_values_it_takes(key: str, text: str) -> None:
    assert values_text(known_as(key)) == text


def test_an_option_knows_whether_it_takes_a_list() -> None:
    assert known_as("annotationDomains").is_list
    assert not known_as("policy").is_list


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("1", 1), ("2.5", 2.5), (" 60 ", 60), ("86400", 86400)])
def test_a_period_is_seconds_and_nothing_is_never(text: str, seconds: float) -> None:
    assert read_value(known_as("driftCheckSeconds"), text) == seconds


@pytest.mark.parametrize("text", ["", "0.5", "86401", "-1", "1e3", "nan", "inf", "60s", "9" * 400, "٣"])
def test_a_period_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected 0, or a number from 1 to 86400"):
        read_value(known_as("driftCheckSeconds"), text)


@pytest.mark.parametrize("text", ["7", "-1", "", "eight", "1.5", "\u0668"])
def test_fewer_nodes_than_the_kubelet_manages_by_itself_cannot_be_allowed(text: str) -> None:
    with pytest.raises(ValueError, match="expected 0, or a whole number from 8"):
        read_value(known_as("topologyManager.max-allowable-numa-nodes"), text)
