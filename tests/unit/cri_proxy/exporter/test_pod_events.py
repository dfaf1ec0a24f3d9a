import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from cri_proxy.codec import encode
from cri_proxy.exporter.daemon import AdminClient
from cri_proxy.exporter.pod_events import AGAIN_SECONDS, MOST_AT_ONCE, PER_SECOND, PodEventsPart
from cri_proxy.http.call import Unreachable
from cri_proxy.http.messages import JSON, Response
from cri_proxy.http.routes import incidents_route
from cri_proxy.http.server import AdminServer
from cri_proxy.kube_api.client import ApiRefused
from cri_proxy.node.decision_log.incidents import IncidentKind, Incidents
from policies.base import ContainerKey, Pod, QosClass, Request
from tests.fakes.api_server import ApiServer, Plain, Scripted
from tests.fakes.http import serving
from tests.fakes.site import InstantClock, Silent
from tests.unit.cri_proxy.kube_api.reach import client

POD = Pod("uid-1", "web", "shop", QosClass.GUARANTEED)


def asking(pod: Pod = POD, container: str = "c") -> Request:
    return Request(ContainerKey(pod.uid, container), pod, 1000)


@dataclass
class Scene:
    """A daemon with incidents, and the part that writes Events about them."""

    server: ApiServer
    clock: InstantClock
    incidents: Incidents
    part: PodEventsPart
    log: Silent = field(default_factory=Silent)

    def happens(self, text: str, pod: Pod = POD, kind: IncidentKind = IncidentKind.REFUSED) -> None:
        self.incidents.add(kind, asking(pod), text)

    def notes(self) -> list[object]:
        return [each["note"] for each in self.server.objects.values()]

    def event(self) -> Plain:
        (found,) = self.server.objects.values()
        return found


@asynccontextmanager
async def opened(server: ApiServer, account: Path, directory: Path) -> AsyncIterator[Scene]:
    clock, log = InstantClock(), Silent()
    incidents = Incidents(clock)
    routes = AdminServer({"/api/v1/incidents": incidents_route(incidents, "n1")})
    async with serving(directory / "admin.sock", routes):
        part = PodEventsPart(AdminClient(directory / "admin.sock"), client(server, account), clock, log)
        yield Scene(server, clock, incidents, part, log)


@pytest.fixture
async def scene(server: ApiServer, account: Path, tmp_path: Path) -> AsyncIterator[Scene]:
    async with opened(server, account, tmp_path) as scene:
        yield scene


async def test_the_same_with_other_figures_is_written_once_and_another_reason_at_once(scene: Scene) -> None:
    for free in (3200, 3100, 900):
        scene.happens(f"wanted 4 exclusive CPUs, {free} m are free")
        await scene.part.step()
    assert scene.notes() == ["container c: wanted 4 exclusive CPUs, 3200 m are free"]
    scene.happens("gpu 0 is in use")
    scene.happens("annotation a1 is unknown", kind=IncidentKind.IGNORED)
    scene.happens("annotation a2 is unknown", kind=IncidentKind.IGNORED)
    await scene.part.step()
    assert len(scene.notes()) == 4


async def test_a_refusal_is_an_event_about_its_pod(scene: Scene) -> None:
    scene.happens("no room")
    await scene.part.step()
    event = scene.event()
    assert event["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "shop",
        "name": "web",
        "uid": "uid-1",
        "fieldPath": "spec.containers{c}",
    }
    assert (event["type"], event["reason"], event["action"]) == ("Warning", "PlacementRefused", "Refuse")
    assert (event["note"], event["eventTime"]) == ("container c: no room", "1970-01-12T13:46:40.000000Z")
    assert (event["reportingController"], event["reportingInstance"]) == ("cri-proxy.io/exporter", "n1")
    assert scene.server.writes() == ["POST /apis/events.k8s.io/v1/namespaces/shop/events"]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(IncidentKind.OVERCOMMITTED, "CPUOvercommitted"), (IncidentKind.IGNORED, "AnnotationIgnored")],
)
async def test_each_kind_has_its_reason(scene: Scene, kind: IncidentKind, reason: str) -> None:
    scene.happens("x", kind=kind)
    await scene.part.step()
    assert scene.event()["reason"] == reason


async def test_a_pod_without_a_container_yet_is_told_of_as_a_whole(scene: Scene) -> None:
    scene.incidents.add(IncidentKind.REFUSED, asking(container=""), "no room")
    await scene.part.step()
    regarding = scene.event()["regarding"]
    assert isinstance(regarding, dict)
    assert "fieldPath" not in regarding
    assert scene.event()["note"] == "no room"


async def test_the_same_is_written_once_in_a_while(scene: Scene) -> None:
    """The kubelet tries a refused container again every few seconds."""
    for _ in range(5):
        scene.happens("no room")
        await scene.part.step()
    assert len(scene.server.objects) == 1
    await scene.clock.sleep(AGAIN_SECONDS)
    scene.happens("no room")
    await scene.part.step()
    assert len(scene.server.objects) == 2


async def test_no_more_are_written_than_the_bucket_has_and_the_rest_is_counted(scene: Scene) -> None:
    for number in range(MOST_AT_ONCE + 10):
        scene.happens("no room", replace(POD, uid=f"uid-{number}"))
    await scene.part.step()
    assert len(scene.server.objects) == MOST_AT_ONCE
    assert scene.log.warnings == ["events_left_out"]
    await scene.clock.sleep(4 / PER_SECOND)
    for number in range(10):
        scene.happens("none", replace(POD, uid=f"uid-{number}"))
    await scene.part.step()
    assert len(scene.server.objects) == MOST_AT_ONCE + 4


async def test_an_event_that_could_not_be_written_is_the_first_of_the_next_step(scene: Scene) -> None:
    scene.happens("a")
    scene.happens("b")
    scene.server.scripted = [Scripted(500)]
    with pytest.raises(ApiRefused):
        await scene.part.step()
    await scene.part.step()
    assert scene.notes() == ["container c: a", "container c: b"]


@pytest.mark.parametrize(
    "said",
    [
        Scripted(404, "NotFound", 'namespaces "shop" not found'),
        Scripted(403, "Forbidden", "unable to create new content in namespace shop because it is being terminated"),
        Scripted(409, "AlreadyExists"),
        Scripted(422, "Invalid"),
    ],
)
async def test_one_that_will_never_be_accepted_keeps_no_other_back(scene: Scene, said: Scripted) -> None:
    scene.happens("a")
    scene.happens("b")
    scene.server.scripted = [said]
    await scene.part.step()
    assert scene.notes() == ["container c: b"]


async def test_a_missing_right_is_an_error(scene: Scene) -> None:
    scene.happens("a")
    scene.server.scripted = [Scripted(403, "Forbidden", "cannot create resource events")]
    with pytest.raises(ApiRefused, match="cannot create resource events"):
        await scene.part.step()


async def test_another_exporter_writes_nothing_twice(scene: Scene, account: Path, tmp_path: Path) -> None:
    scene.happens("a")
    await scene.part.step()
    again = PodEventsPart(AdminClient(tmp_path / "admin.sock"), client(scene.server, account), scene.clock, Silent())
    await again.step()
    assert scene.notes() == ["container c: a"]


async def test_what_is_old_when_the_exporter_starts_is_left(scene: Scene) -> None:
    scene.happens("a")
    await scene.clock.sleep(AGAIN_SECONDS)
    await scene.part.step()
    assert scene.notes() == []


async def test_a_daemon_that_starts_again_is_followed_from_its_first(
    server: ApiServer, account: Path, tmp_path: Path
) -> None:
    clock = InstantClock()
    now = [Incidents(clock)]

    def answer(query: object) -> object:
        return incidents_route(now[0], "n1")(query)  # type: ignore[arg-type]  # a query

    routes = AdminServer({"/api/v1/incidents": answer})  # type: ignore[dict-item]  # as above
    async with serving(tmp_path / "admin.sock", routes):
        part = PodEventsPart(AdminClient(tmp_path / "admin.sock"), client(server, account), clock, Silent())
        for text in ("a", "b"):
            now[0].add(IncidentKind.REFUSED, asking(), text)
        await part.step()
        await clock.sleep(1)
        now[0] = Incidents(clock)
        now[0].add(IncidentKind.REFUSED, asking(), "c")
        await part.step()
    assert [each["note"] for each in server.objects.values()] == [f"container c: {text}" for text in "abc"]


async def test_a_long_text_is_cut_and_a_long_name_too(scene: Scene) -> None:
    scene.happens("ä" * 2000, Pod("u", "p" * 253, "shop", QosClass.GUARANTEED))
    await scene.part.step()
    event, metadata = scene.event(), scene.event()["metadata"]
    assert isinstance(metadata, dict)
    assert len(str(event["note"]).encode()) <= 1024
    assert len(str(metadata["name"])) <= 253
    json.dumps(event)


async def test_what_only_a_newer_daemon_has_words_for_keeps_no_event_back(
    server: ApiServer, account: Path, tmp_path: Path
) -> None:
    clock, log = InstantClock(), Silent()
    incidents = Incidents(clock)
    incidents.add(IncidentKind.REFUSED, asking(), "no room")
    known = encode(incidents.after(0, "n1").incidents[0])
    assert isinstance(known, dict)
    newer = {**known, "number": 2, "kind": "moved", "unknown": {}}
    answer = {"node": "n1", "began_seconds": 1.0, "incidents": [newer, known], "unknown": 1}
    routes = AdminServer({"/api/v1/incidents": lambda query: Response(200, JSON, json.dumps(answer).encode())})
    async with serving(tmp_path / "admin.sock", routes):
        await PodEventsPart(AdminClient(tmp_path / "admin.sock"), client(server, account), clock, log).step()
    assert [event["note"] for event in server.objects.values()] == ["container c: no room"]


async def test_a_daemon_without_incidents_says_what_it_knows(server: ApiServer, account: Path, tmp_path: Path) -> None:
    async with serving(tmp_path / "admin.sock", AdminServer({})):
        part = PodEventsPart(AdminClient(tmp_path / "admin.sock"), client(server, account), InstantClock(), Silent())
        with pytest.raises(Unreachable, match="expected an object, got 404"):
            await part.step()
