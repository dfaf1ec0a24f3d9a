"""Which path answers with what."""

import asyncio
import json

import pytest

from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config
from cri_proxy.http.messages import Response
from cri_proxy.http.routes import build_routes, config_json, packed, plan_route, unpacked
from cri_proxy.node.status.model import PlanView
from cri_proxy.slices import at_once
from sysfs.show.as_json import json_value
from tests.fakes.views import FixedDaemon


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
    assert b'cri_proxy_pool_memory_capacity_bytes{pool="socket #0"} 1.7179869184e+10\n' in answer.body


def test_status_names_pools_and_containers() -> None:
    status = json.loads(get("/api/v1/status").body)
    assert [pool["name"] for pool in status["pools"]] == ["root", "socket #0", "socket #1"]
    assert status["containers"][0]["cpus"] == "2-3"


def test_topology_is_what_the_topology_command_prints() -> None:
    assert json.loads(get("/api/v1/topology").body) == json_value(FixedDaemon().topology())


def test_explain_names_the_request_and_the_ranking() -> None:
    answer = get("/api/v1/explain", pod="web", container="c0")
    (decision,) = json.loads(answer.body)["decisions"]
    assert decision["request"]["cpu_request_mcpu"] == 2000
    assert decision["ranking"][0]["key"][0] == ["fits", 1]


@pytest.mark.parametrize(("query", "status"), [({}, 400), ({"pod": "nobody"}, 404), ({"pod": "web"}, 200)])
def test_explain_wants_a_pod_that_is_known(query: dict[str, str], status: int) -> None:
    assert get("/api/v1/explain", None, **query).status == status


def test_config_is_nested_as_it_is_written() -> None:
    text = 'reservedResources: {cpu: 750m}\nlog: {level: debug}\navailableResources: {cpu: "cpuset:0-3"}'
    daemon = FixedDaemon(parse_config(text))
    answer = json.loads(get("/api/v1/config", daemon).body)
    assert answer["reservedResources"] == {"cpu": "750m"}
    assert answer["log"] == {"level": "debug", "format": "auto"}


def test_the_shown_configuration_reads_back_as_itself() -> None:
    config = parse_config("reservedResources: {cpu: 750m}\nadopt: leave\ntopologyAware: {ColocatePods: true}")
    assert parse_config(json.dumps(config_json(config))) == config
    assert parse_config(json.dumps(config_json(Config()))) == Config()


@pytest.mark.parametrize("text", ["", "adopt: pin\n# ü", "x" * 100_000])
def test_a_packed_text_is_the_same_afterwards(text: str) -> None:
    assert unpacked(packed(text)) == text


@pytest.mark.parametrize("text", ["", "!", "AAAA", packed("ü")[:-8], "ü", packed("x" * (50 << 20))[:4000]])
def test_a_plan_of_what_nobody_packed_is_a_bad_request(text: str) -> None:
    async def plan(text: str, group: str) -> PlanView:
        return PlanView("")

    async def answer() -> Response:
        return await plan_route(plan)({"text": text})

    assert asyncio.run(answer()).status == 400
