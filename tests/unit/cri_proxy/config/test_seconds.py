"""Periods."""

import pytest

from cri_proxy.config.seconds import optional_period_seconds


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("1", 1), ("2.5", 2.5), (" 60 ", 60), ("86400", 86400)])
def test_a_period_is_seconds_and_nothing_is_never(text: str, seconds: float) -> None:
    assert optional_period_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "0.5", "86401", "-1", "1e3", "nan", "inf", "60s", "9" * 400, "٣"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected 0 \(never\), or seconds from 1 to 86400"):
        optional_period_seconds(text)
