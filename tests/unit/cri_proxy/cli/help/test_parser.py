import argparse

import pytest

from cri_proxy.cli.help.parser import CommandParser, command_parser, load_command


def test_text_is_the_default_output() -> None:
    assert command_parser("status", load_command("status")).parse_args([]).output == "text"


def test_an_action_is_a_command_of_its_own() -> None:
    parser = command_parser("gpu score", load_command("gpu score"))
    assert parser.prog == "cri-proxy gpu score"
    assert parser.parse_args(["FILE", "--request", "2"]).output == "text"


def test_a_command_with_actions_lists_them_and_runs_none() -> None:
    command = load_command("gpu")
    assert "publish" in command_parser("gpu", command).format_help()
    with pytest.raises(SystemExit) as stop:
        command_parser("gpu", command).parse_args([])
    assert stop.value.code == 2


def test_wrong_usage_is_one_visible_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        CommandParser("x", formatter_class=argparse.HelpFormatter).error("unknown \x1b[2J")
    assert capsys.readouterr().err == "x: unknown \\x1b[2J; see x --help\n"
