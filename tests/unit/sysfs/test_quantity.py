from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysfs.quantity import QuantityError, bytes_text, parse_bytes, parse_mcpu

SCALES: dict[str, int | Fraction] = {
    "": 1,
    "n": Fraction(1, 10**9),
    "m": Fraction(1, 1000),
    "k": 1000,
    "Ki": 1024,
    "E": 10**18,
    "e-3": Fraction(1, 1000),
}


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
        parse_mcpu(text)
    assert caught.value.text == text


@pytest.mark.parametrize("parse", [parse_bytes, parse_mcpu])
def test_less_than_nothing_is_refused(parse: object) -> None:
    assert callable(parse)
    with pytest.raises(QuantityError):
        parse("-1")


def test_nothing_is_nothing_with_any_sign() -> None:
    assert (parse_mcpu("-0"), parse_bytes("+0.0")) == (0, 0)


@given(
    st.from_regex(r"[0-9]{0,12}\.[0-9]{1,12}|[0-9]{1,20}\.?", fullmatch=True, alphabet=st.characters(codec="ascii")),
    st.sampled_from(sorted(SCALES)),
)
def test_values_are_exact(number: str, scale: str) -> None:
    exact = Fraction(number) * SCALES[scale]
    assert (parse_bytes(number + scale), parse_mcpu(number + scale)) == (ceil(exact), ceil(exact * 1000))


@pytest.mark.parametrize(("count", "text"), [(0, "0"), (1 << 30, "1Gi"), (3 << 20, "3Mi"), (1000, "1000")])
def test_bytes_are_written_in_full(count: int, text: str) -> None:
    assert bytes_text(count) == text
    assert parse_bytes(text) == count
