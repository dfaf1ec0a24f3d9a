from policies.hints.model import Hint, HintProvider, Offers


class Fixed:
    """A provider of one resource whose hints never change."""

    def offers(self) -> Offers:
        return {"cpu": (Hint(0b01, preferred=True),), "memory": None}


def test_a_provider_needs_nothing_but_its_offers() -> None:
    provider: HintProvider = Fixed()
    offers = provider.offers()
    assert offers is not None
    assert list(offers) == ["cpu", "memory"]


def test_equal_hints_are_one() -> None:
    assert len({Hint(None, True), Hint(None, True), Hint(0, True)}) == 2
