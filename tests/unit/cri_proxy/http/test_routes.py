import json
from dataclasses import replace

import pytest

from cri_proxy.codec import encode
from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config
from cri_proxy.http.messages import HttpRequest, Response
from cri_proxy.http.routes import (
    body_route,
    build_routes,
    config_json,
    config_state_route,
    incidents_route,
    object_text,
    plan_route,
    status_text,
)
from cri_proxy.node.decision_log.incidents import IncidentKind, Incidents
from cri_proxy.node.status.decision_views import ExplainView, PlanView
from cri_proxy.node.status.model import ConfigurationView, ReloadView, StatusView
from cri_proxy.steps import BUNCH, Steps, at_once
from sysfs.show.as_json import json_value
from tests.fakes.clock import ManualClock
from tests.fakes.grants import request
from tests.fakes.views import FixedDaemon, container, decision_record, status_view


def get(path: str, daemon: FixedDaemon | None = None, **query: str) -> Response:
    answer = build_routes(daemon if daemon is not None else FixedDaemon())[path](query)
    return answer if isinstance(answer, Response) else at_once(answer)


def test_a_ready_daemon_is_healthy_and_ready() -> None:
    assert [(get(path).status, get(path).body) for path in ("/healthz", "/readyz")] == [(200, b"ok\n")] * 2


def test_a_daemon_that_does_not_decide_is_healthy_but_not_ready_and_says_why() -> None:
    daemon = FixedDaemon()
    daemon.is_ready = False
    assert get("/healthz", daemon).status == 200
    ready = get("/readyz", daemon)
    assert (ready.status, ready.body) == (503, b"not ready\nthe runtime is away\n")


def test_verbose_names_what_is_good_as_well() -> None:
    daemon = FixedDaemon()
    daemon.is_ready = False
    text = get("/readyz", daemon, verbose="").body
    assert text == b"[+]recovery ok\n[-]runtime failed: the runtime is away\nreadyz check failed\n"
    assert get("/healthz", verbose="").body.endswith(b"[+]runtime ok\nhealthz check passed\n")


def test_health_is_data_for_programs() -> None:
    daemon = FixedDaemon()
    daemon.is_ready = False
    answer = get("/readyz", daemon, format="json")
    assert (answer.status, json.loads(answer.body)["problems"]) == (503, ["the runtime is away"])


def test_metrics_are_in_prometheus_text_format() -> None:
    answer = get("/metrics")
    assert answer.content_type.startswith("text/plain; version=0.0.4")
    assert b'cri_proxy_pool_memory_capacity_bytes{pool="socket #0"} 17179869184.0\n' in answer.body


def test_status_names_pools_and_containers() -> None:
    status = json.loads(get("/api/v1/status").body)
    assert [pool["name"] for pool in status["pools"]] == ["root", "socket #0", "socket #1"]
    assert status["containers"][0]["cpus"] == "2-3"


def test_topology_is_what_the_topology_command_prints() -> None:
    assert json.loads(get("/api/v1/topology").body) == json_value(FixedDaemon().topology())


def test_explain_names_the_request_and_the_ranking() -> None:
    (decision,) = json.loads(get("/api/v1/explain", pod="web", container="c0").body)["decisions"]
    assert decision["request"]["cpu_request_mcpu"] == 2000
    assert decision["ranking"][0]["key"][0] == ["fits", 1]


@pytest.mark.parametrize(("query", "status"), [({}, 400), ({"pod": "nobody"}, 404), ({"pod": "web"}, 200)])
def test_explain_wants_a_pod_that_is_known(query: dict[str, str], status: int) -> None:
    assert get("/api/v1/explain", None, **query).status == status


def test_explain_reads_a_name_as_people_write_it() -> None:
    for words in ("default/web/c0", "web/c0", "default/web"):
        assert len(json.loads(get("/api/v1/explain", pod=words).body)["decisions"]) == 1
    assert get("/api/v1/explain", pod="web", namespace="shop").status == 404
    assert get("/api/v1/explain", pod="a//b").status == 400


def test_explain_answers_a_name_that_is_nearly_right_with_candidates() -> None:
    answer = get("/api/v1/explain", pod="wbe", container="c0")
    assert (answer.status, json.loads(answer.body)["candidates"]) == (404, ["default/web/c0"])


def test_explanations_are_written_in_steps_a_few_each() -> None:
    class Workload(FixedDaemon):
        def explain_steps(self, pod: str, container: str | None = None, namespace: str = "") -> Steps[ExplainView]:
            view = yield from super().explain_steps(pod, container, namespace)
            return replace(view, decisions=view.decisions * 40)

    answer = build_routes(Workload())["/api/v1/explain"]({"pod": "web"})
    assert not isinstance(answer, Response)
    steps, text = 0, b""
    while not text:
        try:
            next(answer)
            steps += 1
        except StopIteration as done:
            text = done.value.body
    (one,) = json.loads(get("/api/v1/explain", pod="web").body)["decisions"]
    assert json.loads(text)["decisions"] == [one] * 40
    assert steps >= 20


def test_config_is_nested_as_it_is_written() -> None:
    text = 'reservedResources: {cpu: 750m}\nlog: {level: debug}\navailableResources: {cpu: "cpuset:0-3"}'
    answer = json.loads(get("/api/v1/config", FixedDaemon(parse_config(text))).body)
    assert answer["reservedResources"] == {"cpu": "750m", "memory": []}
    assert answer["log"] == {"level": "debug", "format": "auto"}


def test_the_shown_configuration_reads_back_as_itself() -> None:
    config = parse_config("reservedResources: {cpu: 750m}\nadopt: leave\ntopologyAware: {ColocatePods: true}")
    assert parse_config(json.dumps(config_json(config))) == config
    assert parse_config(json.dumps(config_json(Config()))) == Config()


@pytest.mark.parametrize(("body", "status"), [(b"adopt: pin\n# \xc3\xbc", 200), (b"adopt: \xff", 400)])
async def test_a_plan_takes_a_file_in_utf_8(body: bytes, status: int) -> None:
    asked: list[tuple[str, str]] = []

    async def plan(text: str, group: str) -> PlanView:
        asked.append((text, group))
        return PlanView("")

    answer = await plan_route(plan)(HttpRequest("POST", "/", {"group": "rt"}, body=body))
    assert isinstance(answer, Response)
    assert answer.status == status
    assert asked == ([("adopt: pin\n# ü", "rt")] if status == 200 else [])


def status_of(containers: int) -> StatusView:
    """A status with so many containers, one of them with a name that is not ASCII."""
    shown = tuple(container(f"ü{i}", "shared", "1", notes=('a "note"',)) for i in range(containers))
    return replace(status_view(), containers=shown, warnings=tuple(f"warning {i}" for i in range(containers)))


@pytest.mark.parametrize("containers", [0, 1, BUNCH, BUNCH + 1, 3 * BUNCH])
def test_the_text_in_slices_is_that_of_the_whole(containers: int) -> None:
    status = status_of(containers)
    assert at_once(status_text(status)) == json.dumps(encode(status), ensure_ascii=False)


def test_plain_data_in_slices_is_the_same_as_in_one() -> None:
    plain: dict[str, object] = {"cpus": [{"id": i} for i in range(3 * BUNCH)], "online": "0-7", "notes": []}
    assert at_once(object_text(plain.items())) == json.dumps(plain)


async def test_a_posted_question_is_answered_in_steps() -> None:
    rows = [{"id": number} for number in range(3 * BUNCH)]

    async def state(request: HttpRequest) -> object:
        return {"rows": rows}

    answer = await body_route(state)(HttpRequest("POST", "/", {}))
    assert not isinstance(answer, Response)
    for _ in range(3):
        next(answer)
    assert json.loads(at_once(answer).body) == {"rows": rows}


def test_no_slice_writes_more_than_a_bunch() -> None:
    assert len(list(status_text(status_of(4 * BUNCH)))) >= 2 * 4


@pytest.mark.parametrize("after", ["", "-1", "x", "9" * 18])
def test_incidents_after_no_number_are_the_clients_fault(after: str) -> None:
    answer = incidents_route(Incidents(ManualClock()), "n1")({"after": after})
    assert isinstance(answer, Response)
    assert answer.status == 400


def test_incidents_are_told_with_the_node_and_the_process() -> None:
    incidents = Incidents(ManualClock())
    incidents.add(IncidentKind.REFUSED, request("c", 1000), "no room")
    answer = incidents_route(incidents, "n1")({})
    assert not isinstance(answer, Response)
    plain = json.loads(at_once(answer).body)
    assert (plain["node"], [each["text"] for each in plain["incidents"]]) == ("n1", ["no room"])
    assert isinstance(plain["began_seconds"], float)


@pytest.mark.parametrize(
    ("more", "rejected"),
    [
        ({}, ""),
        ({"last": ReloadView(1.0, "rejected", "line 3: no", "f", False, "cd34")}, "line 3: no"),
        ({"last": ReloadView(1.0, "applied", "", "f", False, "ab12")}, ""),
        ({"is_kept": True}, "the file was invalid at the start: the last valid configuration is in force"),
    ],
)
def test_the_state_of_the_configuration_says_why_the_file_is_not_in_force(
    more: dict[str, object], rejected: str
) -> None:
    view = replace(ConfigurationView("f", "", "ab12", 0.0), **more)  # type: ignore[arg-type]  # its fields
    answer = config_state_route(lambda: view, "n1")({})
    assert isinstance(answer, Response)
    digest = "cd34" if rejected == "line 3: no" else ""
    said = {"rejected": rejected, "rejected_digest": digest}
    assert json.loads(answer.body) == {"node": "n1", "file": "f", "digest": "ab12", **said}


def test_the_history_is_that_since_a_moment() -> None:
    events = json.loads(get("/api/v1/history", since="1").body)["events"]
    assert [event["what"] for event in events] == ["placed", *(entry.what for entry in decision_record().history)]
    assert json.loads(get("/api/v1/history", since="9e9").body)["events"] == []
    odd = get("/api/v1/history", since="yesterday")
    assert (odd.status, json.loads(odd.body)["error"]) == (400, "expected ?since=SECONDS, got 'yesterday'")
