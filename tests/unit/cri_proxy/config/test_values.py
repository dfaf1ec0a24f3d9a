import pytest

from cri_proxy.config.model import Config, known_options
from cri_proxy.config.option import Known
from cri_proxy.config.values import differences, show_value, value_of, with_values


def option(key: str) -> Known:
    return next(known for known in known_options() if known.key == key)


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
