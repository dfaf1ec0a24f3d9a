"""Event names."""

import re

from cri_proxy import events

NAMES = [value for name, value in vars(events).items() if name.isupper()]


def test_every_event_has_a_name_of_its_own() -> None:
    assert len(NAMES) == len(set(NAMES))


def test_names_are_words_that_can_be_searched_for() -> None:
    assert [name for name in NAMES if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name)] == []
