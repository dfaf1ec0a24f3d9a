"""Whatever stands in a value, what reaches a terminal prints: no control character, no change of direction.

Only line ends and the codes of our own colours are left.
"""

import io
import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings

from cri_proxy.cli import capture, check_config, reset
from cri_proxy.cli.layers.report import ConfigReport, OptionChange
from cri_proxy.cli.output import complain, emit, rendered, say, with_visible_text
from cri_proxy.cli.render.columns import STYLE_CODES
from cri_proxy.cli.render.explain import render_explain
from cri_proxy.cli.render.status import render_status
from cri_proxy.codec import encode
from cri_proxy.logs import configure_logging
from cri_proxy.node.reset import ResetContainer, ResetReport
from cri_proxy.node.status.decision_views import ExplainView
from cri_proxy.simulate.demo import demo_scenario
from cri_proxy.simulate.run_files import ScenarioResult, run_scenario
from cri_proxy.state.decisions import HistoryEntry, PinningChange
from policies.base import Pinning
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.show.outline import outline
from tests.fakes.machines import small_machine
from tests.fakes.views import decision_record, explanation, status_view
from tests.property.hostile_values import EVIL, EVIL_TEXTS, poisoned, strings

OUR_STYLES = re.compile(f"\x1b\\[(?:{'|'.join(STYLE_CODES)})m")
REFUSED = (HistoryEntry(1.0, "not created", "the runtime refused: no", 3, 9.0),)
PINNED = Pinning(CpuSet.parse("1"), NodeSet.of([0]))
MOVED = PinningChange("shop", "web", "c0", CpuSet.parse("2"), None)
CHANGE = OptionChange("pinCPU", "true", "false")
Text = Callable[[Any], str]

# What each command prints: a value, and how it is worded.
PRINTED: dict[str, tuple[object, Text]] = {
    "status": (status_view(), partial(render_status, colours=True, width=120)),
    "explain": (
        ExplainView((explanation(), explanation(history=REFUSED))),
        partial(render_explain, colours=True, width=80),
    ),
    "topology": (small_machine(), outline),
    "simulate": (run_scenario(demo_scenario()), lambda result: result.text),
    "reset": (
        ResetReport(PINNED, (ResetContainer("shop", "web", "c0", "id", "refused", PINNED, PINNED, "no"),), 1, False),
        partial(reset.render_reset, colours=True),
    ),
    "capture": (capture.CaptureReport("a.tar.xz", 1, 2, 3, ("EIO sys/x",), "no CPU"), capture.render_report),
    "check-config": (
        ConfigReport(file="a.yaml", warnings=("odd",), changes=(CHANGE,), machine="/", is_planned=True, moves=(MOVED,)),
        check_config.render_report,
    ),
    "check-config of what is not valid": (
        ConfigReport(file="a.yaml", valid=False, error="no such key", line=3, key="pinCPU", instead="the last one"),
        check_config.render_report,
    ),
}
hostile = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def is_harmless(printed: str) -> bool:
    return OUR_STYLES.sub("", printed).replace("\n", "").isprintable()


@pytest.mark.parametrize("command", PRINTED)
@given(evil=EVIL_TEXTS)
@example(evil=EVIL)
@hostile
def test_a_command_prints_what_prints(command: str, evil: str, capsys: pytest.CaptureFixture[str]) -> None:
    value, text = PRINTED[command]
    emit(poisoned(value, evil), "text", text)
    printed = capsys.readouterr().out
    assert is_harmless(printed)
    assert len(printed) > 20


@pytest.mark.parametrize("command", PRINTED)
def test_no_text_of_others_can_begin_a_line(command: str) -> None:
    value, text = PRINTED[command]
    seen: list[str] = []

    def noted(known: object) -> str:
        seen.extend(strings(known))
        return text(known)

    rendered(poisoned(value, "\r\nroot# "), "text", noted)
    assert "\\nroot#" in "".join(seen)
    assert all(map(str.isprintable, seen))


@pytest.mark.parametrize("command", PRINTED)
@given(evil=EVIL_TEXTS)
@example(evil=EVIL)
@hostile
def test_data_prints_as_well_and_is_exact(command: str, evil: str) -> None:
    value, _ = PRINTED[command]
    if isinstance(value, ScenarioResult) or command == "topology":
        return  # their data is not that of the value
    bad = poisoned(value, evil)
    as_json, as_yaml = (rendered(bad, output, str) for output in ("json", "yaml"))
    assert is_harmless(as_json + as_yaml)
    # json.dumps joins the halves of a pair, as any reader of JSON does.
    assert json.loads(as_json) == json.loads(json.dumps(encode(bad)))
    assert yaml.safe_load(as_yaml) == json.loads(json.dumps(encode(bad), ensure_ascii=False))


@given(evil=EVIL_TEXTS)
@example(evil=EVIL)
@hostile
def test_what_a_renderer_adds_itself_is_escaped_all_the_same(evil: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(evil)
    complain(evil)
    done = capsys.readouterr()
    assert is_harmless(done.out + done.err)


@given(evil=EVIL_TEXTS)
@example(evil=EVIL)
@hostile
def test_a_line_of_the_log_prints(evil: str) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, log_format, styles in (
        (io.StringIO(), "json", ""),
        (io.StringIO(), "console", ""),
        (Terminal(), "console", r"\x1b\[[0-9;]*m"),
    ):
        log = configure_logging("debug", log_format, stream)  # type: ignore[arg-type]  # one of its literals
        record = poisoned(decision_record(), evil)
        log.info(evil, pod=f"web{evil}", displaced=[evil], error=ValueError(evil), decision=record)
        line = stream.getvalue()
        assert line.count("\n") == 1
        # structlog styles in more ways than the commands: what it writes around each field is taken away.
        assert re.sub(styles, "", line).removesuffix("\n").isprintable()
        assert evil not in line


def test_the_check_sees_what_is_not_escaped() -> None:
    assert not is_harmless(f"web{EVIL}")
    assert with_visible_text("web") == "web"


def test_a_history_says_how_often() -> None:
    view = ExplainView((explanation(history=REFUSED),))
    assert "(3 times, last 1970-01-01 00:00:09)" in render_explain(view, width=200)
