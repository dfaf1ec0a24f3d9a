import json

import pytest
import yaml

from cri_proxy.cli.output import emit, is_colourful, render
from cri_proxy.node.status.model import Health
from tests.fakes.views import status_view


def test_text_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"a": 1}, "text", "for people")
    assert capsys.readouterr().out == "for people\n"


def test_json_and_yaml_say_the_same() -> None:
    view = status_view()
    assert json.loads(render(view, "json", "")) == yaml.safe_load(render(view, "yaml", ""))


def test_a_short_answer_is_one_line_of_json() -> None:
    assert render({"affinity": [0]}, "json", "") == '{"affinity": [0]}'


def test_a_view_is_data_by_field_name() -> None:
    assert (
        render(Health(True, False), "json", "") == '{"is_alive": true, "is_ready": false, "problems": [], "parts": []}'
    )


def test_a_pipe_gets_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    assert not is_colourful()
