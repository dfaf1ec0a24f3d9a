"""Kubernetes quantities."""

from fractions import Fraction

import pytest

from sysfs.quantity import QuantityError, parse_bytes, parse_mcpu, parse_quantity


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("128974848", 128974848),
        ("129e6", 129_000_000),
        ("129M", 129_000_000),
        ("123Mi", 123 << 20),
        ("1.5Gi", 3 << 29),
        ("2Ti", 2 << 40),
        ("1E", 10**18),
        ("1Ei", 1 << 60),
        ("1E3", 1000),
        (".5Ki", 512),
        ("100m", 1),
    ],
)
def test_bytes_in_every_form_are_rounded_up(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize(("text", "mcpu"), [("750m", 750), ("2", 2000), ("0.5", 500), ("1500u", 2), ("1e-1", 100)])
def test_cpus_in_thousandths_are_rounded_up(text: str, mcpu: int) -> None:
    assert parse_mcpu(text) == mcpu


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "1KI", "0x10", "1e999", "1.2.3", "٣", "1_000", "9" * 65])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert caught.value.text == text


@pytest.mark.parametrize("parse", [parse_bytes, parse_mcpu])
def test_less_than_nothing_is_refused(parse: object) -> None:
    assert callable(parse)
    with pytest.raises(QuantityError):
        parse("-1")


def test_the_value_is_exact() -> None:
    assert parse_quantity("0.1") == Fraction(1, 10)
