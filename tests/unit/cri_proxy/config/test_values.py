"""Text into values."""

import pytest

from cri_proxy.config.model import Config, Known, known_options
from cri_proxy.config.values import differences, is_list, read_value, show_value, value_of, values_text, with_values


def option(key: str) -> Known:
    return next(known for known in known_options() if known.key == key)


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
    ],
)
def test_a_value_is_read_by_its_options_type(key: str, raw: str | tuple[str, ...], value: object) -> None:
    assert read_value(option(key), raw) == value


@pytest.mark.parametrize(
    ("key", "raw", "problem"),
    [
        ("topologyAware.PinCPU", "maybe", "expected true or false, got 'maybe'"),
        ("topologyAware.PinCPU", ("true",), "expected true or false, got a list"),
        ("adopt", "kill", "expected pin or leave, got 'kill'"),
        ("topologyManager.policy", "restricted", "got 'restricted'; this version merges no hints"),
        ("annotationDomains", ("ok.io", "NOT ok"), "expected a DNS name"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(key: str, raw: str | tuple[str, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_value(option(key), raw)


def test_values_land_in_their_groups() -> None:
    config = with_values(Config(), [(option("log.level"), "debug"), (option("adopt"), "leave")])
    assert (config.log.level, config.adopt, config.log.format) == ("debug", "leave", "auto")


def test_differences_name_what_differs() -> None:
    known = option("log.level")
    changed = with_values(Config(), [(known, "debug")])
    assert differences(Config(), changed, known_options()) == ((known, "info", "debug"),)
    assert value_of(changed, known) == "debug"


@pytest.mark.parametrize(("value", "text"), [(None, "none"), ("", "none"), (False, "false"), (("a",), "[a]")])
def test_values_are_shown_as_they_are_written(value: object, text: str) -> None:
    assert show_value(value) == text


def test_an_option_says_which_values_it_takes() -> None:
    assert values_text(option("policy")) == "`topology-aware` or `none`"
    assert is_list(option("annotationDomains"))
    assert not is_list(option("policy"))
