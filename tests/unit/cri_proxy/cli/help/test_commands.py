import pytest

from cri_proxy.cli.help.commands import ACTIONS, COMMANDS, ROWS


@pytest.mark.parametrize("name", ROWS)
def test_a_command_says_in_one_line_what_it_does(name: str) -> None:
    assert 10 < len(ROWS[name].text) < (130 if " " in name else 100)
    assert not ROWS[name].text.endswith(".")


def test_an_action_belongs_to_a_command() -> None:
    assert {row.name.split()[0] for row in ACTIONS} == {name for name in COMMANDS if ROWS[name].actions}
    assert list(ROWS["devices"].actions) == ["list", "allocate", "hints", "cdi"]


def test_the_module_of_a_command_is_its_name_unless_it_has_another() -> None:
    assert ROWS["check-config"].path == "cri_proxy.cli.check_config"
    assert ROWS["extender"].path == "cri_proxy.cli.agents.extender"
