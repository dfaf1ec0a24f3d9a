from dataclasses import replace

import pytest

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.node.decision_log.incidents import KEPT, Incident, IncidentKind, Incidents
from cri_proxy.node.decision_log.journal import Journal
from policies.base import Reason, Rejected, Request
from tests.fakes.clock import ManualClock
from tests.fakes.grants import request
from tests.fakes.site import Silent, Site, opened


def told(site: Site) -> list[tuple[str, str, str]]:
    found = site.journal.incidents.after(0, "n1").incidents
    return [(each.kind, f"{each.namespace}/{each.pod}/{each.container}", each.text) for each in found]


def asking() -> Request:
    return request("c", 1000)


def test_those_after_a_number_are_told_oldest_first() -> None:
    incidents = Incidents(ManualClock())
    for text in ("a", "b", "c"):
        incidents.add(IncidentKind.IGNORED, asking(), text)
    answer = incidents.after(1, "n1")
    assert [(each.number, each.text) for each in answer.incidents] == [(2, "b"), (3, "c")]
    assert (answer.node, incidents.after(3, "n1").incidents) == ("n1", ())


def test_the_newest_are_kept() -> None:
    incidents = Incidents(ManualClock())
    for number in range(KEPT + 10):
        incidents.add(IncidentKind.IGNORED, asking(), str(number))
    found = incidents.after(0, "n1").incidents
    assert (len(found), found[0].number, found[-1].number) == (KEPT, 11, KEPT + 10)


async def test_a_refusal_is_one() -> None:
    async with opened(Site()) as site:
        with pytest.raises(CallFailed):
            await site.run("web", guaranteed("c", 9000))
        ((kind, name, text),) = told(site)
        assert (kind, name) == ("refused", "default/web/c")
        assert "9" in text
        first: Incident = site.journal.incidents.after(0, "").incidents[0]
        assert first.pod_uid


def test_a_pod_that_is_refused_before_it_has_a_container_is_one() -> None:
    journal = Journal(Silent(), ManualClock())
    asked = asking()
    pod = replace(asked, container=replace(asked.container, name=""))
    journal.pod_refused(pod, Rejected(Reason("full", "no node has room")))
    (incident,) = journal.incidents.after(0, "n1").incidents
    assert (incident.kind, incident.container, incident.text) == ("refused", "", "no node has room")


async def test_a_container_without_cpu_time_is_one() -> None:
    async with opened(Site()) as site:
        await site.run("big", guaranteed("c", 6000))
        await site.run("web", ContainerSpec("c", 2000))
        assert [(kind, name) for kind, name, _ in told(site)] == [("overcommitted", "default/web/c")]


async def test_a_wish_without_effect_is_one() -> None:
    async with opened(Site()) as site:
        annotations = (("cri-proxy.io/hyperthreads", "perhaps"),)
        await site.run_spec(PodSpec("web", (guaranteed("c", 1000),), "default", annotations))
        ((kind, _, text),) = told(site)
        assert kind == "ignored"
        assert "perhaps" in text
