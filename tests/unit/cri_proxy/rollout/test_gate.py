"""What each node of a fleet takes, and when; the nodes are those of tests/fakes/config_fleet.py."""

import asyncio
import json
from pathlib import Path
from random import Random

import pytest

from cri_proxy.rollout.cluster import ConfigMapName
from cri_proxy.rollout.gate import LOOK_SECONDS, REPEAT_SECONDS, ClusterGate, RolloutRules
from tests.fakes.api_server import ApiServer, Plain, Scripted
from tests.fakes.config_fleet import Fleet, Lines
from tests.fakes.site import InstantClock
from tests.fakes.waiting import holds

CANARY = "cri-proxy.io/group=canary"
EVENTS = "/apis/events.k8s.io/v1/namespaces/kube-system/events"
OLD, NEW = {"default.yaml": "adopt: leave"}, {"default.yaml": "adopt: pin"}


@pytest.fixture
def cluster(server: ApiServer, account: Path, tmp_path: Path) -> Fleet:
    return Fleet(server, tmp_path, account, RolloutRules((CANARY,)))


@pytest.fixture
async def fleet(cluster: Fleet) -> Fleet:
    """A canary and two others, all with the old configuration in force."""
    cluster.join("c1", group="canary")
    cluster.join("w1")
    cluster.join("w2", group="rt")
    await cluster.change(OLD)
    await cluster.settled()
    assert cluster.texts() == ["canary:adopt: leave", "adopt: leave", "rt:adopt: leave"]
    return cluster


def texts(canary: str, *others: str) -> list[str]:
    return [
        f"canary:adopt: {canary}",
        *(f"{group}adopt: {each}" for group, each in zip(("", "rt:"), others, strict=True)),
    ]


async def test_canaries_take_a_change_first_and_the_others_once_it_was_in_force_for_a_while(fleet: Fleet) -> None:
    await fleet.change(NEW)
    assert fleet.texts() == texts("pin", "leave", "leave")
    held = fleet.nodes["w1"].log.of("config_held")[-1]
    assert "c1 has sha256:" in str(held["reason"])
    fleet.nodes["c1"].report()
    await fleet.look()
    await fleet.clock.sleep(59)
    await fleet.look()
    assert fleet.texts() == texts("pin", "leave", "leave")
    await fleet.clock.sleep(1)
    await fleet.look()
    assert fleet.texts() == texts("pin", "pin", "pin")
    assert fleet.nodes["w1"].log.of("config_stopped") == []


async def test_a_canary_that_rejects_it_stops_it_with_its_name_and_reason(fleet: Fleet) -> None:
    await fleet.change(NEW)
    fleet.nodes["c1"].report("adopt: expected one of leave, pin")
    await fleet.look()
    await fleet.clock.sleep(5000)
    await fleet.look()
    assert fleet.texts() == texts("pin", "leave", "leave")
    stopped = fleet.nodes["w2"].log.of("config_stopped")[0]
    assert stopped["reason"] == "c1 rejects default.yaml: adopt: expected one of leave, pin"
    events = {path: value for path, value in fleet.server.objects.items() if path.startswith(EVENTS)}
    (event,) = events.values()  # of two nodes
    assert (event["reason"], event["type"]) == ("RolloutStopped", "Warning")
    assert "c1 rejects default.yaml: adopt: expected" in str(event["note"])
    assert str(stopped["remedy"]) in str(event["note"])
    assert event["regarding"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": "kube-system",
        "name": "cri-proxy",
    }


async def test_however_long_the_reason_is_the_event_has_both_ways_out(fleet: Fleet) -> None:
    await fleet.change(NEW)
    fleet.nodes["c1"].report("no room for a container; " * 40)
    await fleet.look()
    (event,) = (value for path, value in fleet.server.objects.items() if path.startswith(EVENTS))
    remedy = str(fleet.nodes["w1"].log.of("config_stopped")[0]["remedy"])
    assert str(event["note"]).endswith(remedy)
    assert len(str(event["note"]).encode()) <= 1024


async def test_to_go_back_is_to_apply_the_former_one(fleet: Fleet) -> None:
    await fleet.change(NEW)
    fleet.nodes["c1"].report("no")
    await fleet.look()
    await fleet.change(OLD)
    assert fleet.texts() == texts("leave", "leave", "leave")
    lines = len(fleet.nodes["w1"].log.lines)
    await fleet.settled()
    assert len(fleet.nodes["w1"].log.lines) == lines


async def test_to_go_on_is_the_key_with_the_digest_which_lets_no_other_content_pass(fleet: Fleet) -> None:
    await fleet.change(NEW)
    fleet.nodes["c1"].report("no")
    await fleet.look()
    remedy = str(fleet.nodes["w1"].log.of("config_stopped")[0]["remedy"])
    patch = json.loads(remedy.partition(" -p '")[2].rstrip("'"))
    for wrong in ("", "x", patch["data"]["go-on"][:11]):
        await fleet.change({**NEW, "go-on": wrong})
        assert fleet.texts() == texts("pin", "leave", "leave")
    await fleet.change({**NEW, **patch["data"]})
    assert fleet.texts() == texts("pin", "pin", "pin")
    assert not (fleet.nodes["w1"].target / "go-on").exists()
    await fleet.change({"default.yaml": "adopt: leave # other", **patch["data"]})
    assert fleet.texts() == ["canary:adopt: leave # other", "adopt: pin", "rt:adopt: pin"]


async def test_the_key_needs_no_api_server(fleet: Fleet) -> None:
    fleet.server.port = 1
    for node in fleet.nodes.values():
        node.start()
    await fleet.change(NEW)
    digest = str(fleet.nodes["w1"].log.of("config_held")[-1]["digest"])
    await fleet.change({**NEW, "go-on": f"{digest}\n"})
    assert fleet.texts() == texts("pin", "pin", "pin")


async def test_a_canary_that_says_nothing_stops_it_after_a_while_and_may_still_be_late(fleet: Fleet) -> None:
    await fleet.change(NEW)
    await fleet.clock.sleep(899)
    await fleet.look()
    assert fleet.nodes["w1"].log.of("config_stopped") == []
    await fleet.clock.sleep(1)
    await fleet.look()
    (stopped,) = fleet.nodes["w1"].log.of("config_stopped")
    assert str(stopped["reason"]).startswith("after 900 s: c1 has sha256:")
    await fleet.settled()
    assert fleet.texts() == texts("pin", "pin", "pin")


async def test_a_canary_that_is_gone_is_not_waited_for_and_without_any_all_wait(fleet: Fleet) -> None:
    fleet.join("c2", group="canary")
    await fleet.change(NEW)
    fleet.nodes["c1"].report()
    await fleet.look()
    assert "c2 " in str(fleet.nodes["w1"].log.of("config_held")[-1]["reason"])
    for name in ("c2", "c1"):
        del fleet.nodes[name]
        del fleet.server.objects[f"/api/v1/nodes/{name}"]
        await fleet.look()
        await fleet.clock.sleep(60)
        await fleet.look()
        if name == "c2":
            assert fleet.texts() == texts("pin", "pin", "pin")
    await fleet.change(OLD)
    assert fleet.texts() == ["adopt: pin", "rt:adopt: pin"]
    assert "no Node has the label" in str(fleet.nodes["w1"].log.of("config_stopped")[0]["reason"])


async def test_a_report_about_an_earlier_content_counts_neither_way(fleet: Fleet) -> None:
    """Two changes quickly: the canary's condition is about the first when the second is there."""
    await fleet.change({"default.yaml": "adopt: wrong"})
    fleet.nodes["c1"].report("adopt: expected one of leave, pin")
    condition = fleet.server.objects["/api/v1/nodes/c1"]["status"]
    await fleet.change(NEW)
    fleet.server.objects["/api/v1/nodes/c1"]["status"] = condition  # still of the first
    await fleet.clock.sleep(100)
    await fleet.look()
    assert fleet.texts() == texts("pin", "leave", "leave")
    assert fleet.nodes["w1"].log.of("config_stopped") == []
    await fleet.settled()
    assert fleet.texts() == texts("pin", "pin", "pin")


async def test_the_watch_begins_again_where_a_canary_ceases_to_be_ready(fleet: Fleet) -> None:
    await fleet.change(NEW)
    fleet.nodes["c1"].report()
    await fleet.look()
    await fleet.clock.sleep(50)
    fleet.nodes["c1"].report(is_ready=False)
    await fleet.look()
    fleet.nodes["c1"].report()
    await fleet.look()
    await fleet.clock.sleep(50)
    await fleet.look()
    assert fleet.texts() == texts("pin", "leave", "leave")
    await fleet.clock.sleep(10)
    await fleet.look()
    assert fleet.texts() == texts("pin", "pin", "pin")


async def test_without_the_api_server_groups_and_files_stay_also_for_a_new_process(fleet: Fleet) -> None:
    port, fleet.server.port = fleet.server.port, 1
    for node in fleet.nodes.values():
        node.start()
    await fleet.change(NEW)
    assert fleet.texts() == texts("leave", "leave", "leave")
    (unread,) = fleet.nodes["w2"].log.of("node_unread")
    assert unread["outcome"] == "the last group, rt, stays"
    assert "the canaries' Nodes cannot be read" in str(fleet.nodes["w2"].log.of("config_held")[-1]["reason"])
    await fleet.clock.sleep(900)
    await fleet.look()
    assert fleet.nodes["w2"].log.of("config_stopped")
    assert fleet.nodes["w2"].log.of("not_exported")
    fleet.server.port = port
    for node in fleet.nodes.values():
        node.start()
    await fleet.look()
    await fleet.settled()
    assert fleet.texts() == texts("pin", "pin", "pin")


async def test_a_node_without_files_and_without_the_api_server_writes_nothing(fleet: Fleet) -> None:
    fleet.server.port = 1
    new = fleet.join("w3")
    new.volume.write(OLD)
    assert not await new.agent.copy()
    assert not new.target.exists()
    assert new.log.of("node_unread")[0]["outcome"] == "nothing is written until they are read"


async def test_a_new_node_takes_at_once_what_the_canaries_have_and_waits_for_what_they_reject(fleet: Fleet) -> None:
    new = fleet.join("w3")
    new.volume.write(OLD)
    assert await new.agent.copy()
    await fleet.change(NEW)
    fleet.nodes["c1"].report("no")
    late = fleet.join("w4")
    late.volume.write(NEW)
    assert not await late.agent.copy()
    assert not late.target.exists()


async def test_a_change_of_the_label_is_taken_at_the_next_look_also_while_files_wait(fleet: Fleet) -> None:
    await fleet.change(NEW)
    fleet.nodes["w1"].label(group="rt")
    await fleet.look()
    assert fleet.texts()[1] == "rt:adopt: leave"
    fleet.nodes["w1"].label()
    await fleet.look()
    assert fleet.texts()[1] == "adopt: leave"
    fleet.nodes["w1"].label(group="canary")
    await fleet.look()
    assert fleet.texts()[1] == "canary:adopt: pin"


@pytest.mark.parametrize(
    ("labels", "group"),
    [
        ({"config.nri/group": "a"}, "a"),
        ({"cri-resource-manager.intel.com/group": "a"}, "a"),
        ({"resource-policy.nri.io/group": "a", "config.nri/group": "b"}, "b"),
        ({"cri-resource-manager.intel.com/group": "a", "cri-proxy.io/group": "b"}, "b"),
    ],
)
async def test_labels_of_peers_count_behind_ours(cluster: Fleet, labels: dict[str, str], group: str) -> None:
    node = cluster.join("c1", group="canary")
    cluster.server.put("/api/v1/nodes/c1", {"metadata": {"name": "c1", "labels": labels}, "status": {}})
    cluster.rules = RolloutRules()
    node.start()
    await cluster.change(OLD)
    assert node.text() == f"{group}:adopt: leave"


async def test_a_label_that_is_no_name_keeps_the_last_group(fleet: Fleet) -> None:
    fleet.nodes["w2"].label(group="../x")
    await fleet.look()
    assert fleet.texts()[2] == "rt:adopt: leave"
    assert "label cri-proxy.io/group: expected letters" in str(fleet.nodes["w2"].log.of("node_unread")[0]["reason"])


async def test_several_selectors_are_stages_in_their_order(server: ApiServer, account: Path, tmp_path: Path) -> None:
    cluster = Fleet(server, tmp_path, account, RolloutRules((CANARY, "cri-proxy.io/stage=2")))
    for name, labels in (("c1", {"group": "canary"}), ("s1", {"stage": "2"}), ("w1", {})):
        cluster.join(name, **labels).volume.write(OLD)
    for _ in range(3):
        await cluster.settled()
    assert cluster.texts() == ["canary:adopt: leave", "adopt: leave", "adopt: leave"]
    await cluster.change(NEW)
    seen = []
    for _ in range(3):
        seen.append([text.endswith("pin") for text in cluster.texts()])
        await cluster.settled()
    assert seen == [[True, False, False], [True, True, False], [True, True, True]]


async def test_what_stays_so_is_told_again_now_and_then(fleet: Fleet) -> None:
    await fleet.change(NEW)
    fleet.nodes["c1"].report("no")
    for _ in range(3):
        await fleet.look()
    assert len(fleet.nodes["w1"].log.of("config_stopped")) == 1
    await fleet.clock.sleep(REPEAT_SECONDS)
    await fleet.look()
    assert len(fleet.nodes["w1"].log.of("config_stopped")) == 2


async def test_a_reason_whose_words_change_all_the_time_is_one_event_and_few_questions(fleet: Fleet) -> None:
    await fleet.change(NEW)
    for minute in range(8):
        fleet.nodes["c1"].report(f"not for {minute} minutes")
        await fleet.look()
        await fleet.clock.sleep(59)
    written = [path for path in fleet.server.objects if path.startswith(EVENTS)]
    asked = [request for request in fleet.server.requests if request.path.startswith(EVENTS)]
    assert (len(written), len(asked)) == (1, 2)  # of two nodes
    assert len(fleet.nodes["w1"].log.of("config_stopped")) > 3


async def test_an_event_that_could_not_be_written_is_tried_again(fleet: Fleet) -> None:
    await fleet.change(NEW)
    fleet.nodes["c1"].report("no")
    port, fleet.server.port = fleet.server.port, 1
    for node in fleet.nodes.values():
        node.start()
    await fleet.clock.sleep(900)
    await fleet.look()
    await fleet.clock.sleep(900)
    await fleet.look()
    assert fleet.nodes["w1"].log.of("not_exported")
    fleet.server.port = port
    for node in fleet.nodes.values():
        node.start()
    await fleet.look()
    assert len([path for path in fleet.server.objects if path.startswith(EVENTS)]) == 1


async def test_who_may_write_no_events_says_so_and_stops_all_the_same(fleet: Fleet) -> None:
    await fleet.change(NEW)
    fleet.nodes["c1"].report("no")
    path = "/api/v1/nodes/w1"
    list_answer: Plain = {"kind": "NodeList", "items": [fleet.server.objects["/api/v1/nodes/c1"]]}
    answers = (Scripted(200, raw=json.dumps(each).encode()) for each in (fleet.server.objects[path], list_answer))
    fleet.server.scripted = [*answers, Scripted(403, "Forbidden", "cannot create events")]
    await fleet.nodes["w1"].agent.copy()
    assert "cannot create events" in str(fleet.nodes["w1"].log.of("not_exported")[0]["reason"])
    assert fleet.texts()[1] == "adopt: leave"


async def test_a_configmap_with_nothing_but_the_key_of_a_rollout_is_none(fleet: Fleet) -> None:
    await fleet.change({"go-on": "x"})
    assert fleet.texts() == texts("leave", "leave", "leave")
    assert "holds no configuration" in str(fleet.nodes["w1"].log.of("config_not_written")[0]["reason"])


async def test_without_canaries_all_take_a_change_at_once_and_nothing_is_listed(cluster: Fleet) -> None:
    cluster.rules = RolloutRules()
    cluster.join("w1")
    cluster.join("w2")
    await cluster.change(NEW)
    assert cluster.texts() == ["adopt: pin", "adopt: pin"]
    assert not any("labelSelector" in request.path for request in cluster.server.requests)


async def test_a_running_agent_looks_at_the_label_again_and_again(fleet: Fleet) -> None:
    stop = asyncio.Event()
    node = fleet.nodes["w1"]
    serving = asyncio.get_running_loop().create_task(node.agent.serve(stop.wait()))
    node.label(group="rt")
    await holds("the group is written", lambda: node.text() == "rt:adopt: leave")
    stop.set()
    await serving


def test_many_nodes_look_one_after_the_other() -> None:
    class Unasked:
        config_map, node = ConfigMapName("a", "b"), "w1"

    gate = ClusterGate(Unasked(), RolloutRules(), clock=InstantClock(), log=Lines(), random=Random(1))  # type: ignore[arg-type]  # asked nothing
    waits = [gate.wait_seconds() for _ in range(100)]
    assert LOOK_SECONDS <= min(waits) < max(waits) <= 1.5 * LOOK_SECONDS
