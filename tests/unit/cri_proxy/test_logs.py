import io
import json
import os
from pathlib import Path
from typing import TextIO

import pytest

from cri_proxy.logs import (
    LEVELS,
    Format,
    Log,
    change_logging,
    configure_logging,
    is_journal,
    is_terminal,
    wants_console,
)
from policies.base import Reason


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def logger(stream: TextIO, log_format: Format = "auto") -> Log:
    return configure_logging("info", log_format, stream)


def test_a_line_is_a_json_object_with_event_level_and_time() -> None:
    stream = io.StringIO()
    logger(stream).info("placed", pod="web", cpus="2-3")
    line = json.loads(stream.getvalue())
    assert list(line) == ["timestamp", "level", "event", "pod", "cpus"]
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "placed", "level": "info", "pod": "web", "cpus": "2-3"}


def test_fields_that_do_not_apply_are_left_out() -> None:
    stream = io.StringIO()
    logger(stream).warning("refused", exclusive=None, code="cpu-full")
    assert "exclusive" not in json.loads(stream.getvalue())


def test_a_value_of_any_kind_can_be_logged() -> None:
    stream = io.StringIO()
    logger(stream).error("fault", error=ValueError("ü"))
    assert json.loads(stream.getvalue())["error"] == "ü"


def test_a_message_cannot_start_a_line_of_its_own() -> None:
    stream = io.StringIO()
    logger(stream).info("placed", pod="a\n{}")
    assert stream.getvalue().count("\n") == 1


def test_what_is_below_the_level_is_dropped_and_the_level_can_change() -> None:
    stream = io.StringIO()
    log = logger(stream)
    log.debug("hidden")
    change_logging("debug", "json")
    log.debug("seen")
    change_logging("error", "json")
    log.warning("hidden")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["seen"]


def test_a_value_of_ours_is_data_in_json() -> None:
    stream = io.StringIO()
    configure_logging("debug", "json", stream).debug("decided", decision=Reason("pool", "why"), path=Path("/x"))
    line = json.loads(stream.getvalue())
    assert (line["decision"], line["path"]) == ({"code": "pool", "text": "why"}, "/x")


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_is_named_in_its_line(level: str) -> None:
    stream = io.StringIO()
    getattr(configure_logging("debug", "json", stream), level)("something")
    assert json.loads(stream.getvalue())["level"] == level


def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    logger(stream).info("placed", pod="web")
    assert "placed" in stream.getvalue()
    assert "\x1b[" in stream.getvalue()


@pytest.mark.parametrize(
    ("level", "first"), [("debug", "<7>{"), ("info", "<6>{"), ("warning", "<4>{"), ("error", "<3>{")]
)
def test_the_journal_is_told_how_grave_a_line_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str, first: str
) -> None:
    with (tmp_path / "journal").open("w+") as stream:
        status = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        getattr(configure_logging("debug", "auto", stream), level)("something")
        stream.seek(0)
        assert stream.read().startswith(first)


def test_what_is_not_the_journal_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "8:12345")
    with (tmp_path / "file").open("w") as stream:
        assert not is_journal(stream)
    assert not is_journal(stream)
    assert not is_journal(io.StringIO())


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    logger(stream, "console").info("placed", pod="web")
    assert "\x1b[" not in stream.getvalue()


def test_a_terminal_that_a_service_has_opened_is_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "8:12345")
    assert wants_console("auto", Terminal())


def test_what_is_no_terminal_gets_json_unless_it_is_asked_otherwise() -> None:
    assert not wants_console("auto", io.StringIO())
    assert wants_console("console", io.StringIO())


def test_level_and_form_change_under_a_logger_that_is_in_use() -> None:
    stream = io.StringIO()
    log = logger(stream, "json")
    change_logging("debug", "console")
    log.debug("seen")
    change_logging("info", "json")
    log.debug("hidden")
    log.info("placed")
    first, last = stream.getvalue().splitlines()
    assert "seen" in first
    assert not first.startswith("{")
    assert json.loads(last)["event"] == "placed"


def test_a_stream_that_was_closed_does_not_keep_a_change_from_being_made() -> None:
    stream = Terminal()
    logger(stream, "json")
    stream.close()
    change_logging("debug", "auto")
    assert not is_terminal(stream)
