import json

import pytest
import yaml

from cri_proxy.cli.output import emit, is_colourful, rendered
from cri_proxy.node.status.model import Health
from tests.fakes.views import status_view


def test_text_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"a": 1}, "text", lambda _: "for people")
    assert capsys.readouterr().out == "for people\n"


def test_json_and_yaml_say_the_same() -> None:
    view = status_view()
    assert json.loads(rendered(view, "json", str)) == yaml.safe_load(rendered(view, "yaml", str))


def test_a_short_answer_is_one_line_of_json() -> None:
    assert rendered({"affinity": [0]}, "json", str) == '{"affinity": [0]}'


def test_a_view_is_data_by_field_name() -> None:
    assert (
        rendered(Health(True, False), "json", str)
        == '{"is_alive": true, "is_ready": false, "problems": [], "parts": []}'
    )


def test_a_pipe_gets_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    assert not is_colourful()
