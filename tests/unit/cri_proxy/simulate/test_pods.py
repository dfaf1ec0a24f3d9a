import pytest

from cri_proxy.cri_client.pods import ContainerSpec
from cri_proxy.simulate.errors import StepError
from cri_proxy.simulate.pods import Attempt, KnownPod, Pods, new_pod
from cri_proxy.simulate.scenario.amounts import Amounts
from cri_proxy.simulate.scenario.model import Create, NewContainer, Scenario
from cri_proxy.simulate.scenario.parse import parse_scenario
from policies.base import QosClass


def create(pod: str, namespace: str | None = None, *names: str, qos: QosClass | None = None) -> Create:
    return Create(pod, namespace, qos, (), (), tuple(NewContainer(name, Amounts()) for name in names))


def known(pods: Pods, step: Create) -> KnownPod:
    spec = pods.planned(step)
    pod = KnownPod(spec, "s", tuple(Attempt(c, f"id-{c.name}", 0) for c in spec.containers))
    pods.put(pod)
    return pod


def empty(*steps: str) -> Scenario:
    lines = [f"- create: {{pod: {s.split('/')[1]}, namespace: {s.split('/')[0]}, containers: []}}" for s in steps]
    return parse_scenario("machine: host\nsteps:\n" + "\n".join(lines))


def test_a_name_of_two_namespaces_is_written_with_its_namespace() -> None:
    pods = Pods(empty("a/web", "b/web", "a/db"))
    web, db = known(pods, create("web", "a", "c0")), known(pods, create("db", "a", "c0"))
    assert (pods.name_of(web.spec, "c0"), pods.name_of(db.spec, "c0")) == ("a/web/c0", "db/c0")


def test_a_pod_is_found_by_its_name_where_that_is_enough() -> None:
    pods = Pods(empty("a/web", "b/web"))
    first = known(pods, create("web", "a", "c0"))
    assert pods.named("web") == pods.named("a/web") == first
    known(pods, create("web", "b", "c0"))
    with pytest.raises(StepError, match="several namespaces"):
        pods.named("web")


def test_what_is_not_there_is_answered_with_what_is() -> None:
    pods = Pods(empty("default/web"))
    known(pods, create("web", None, "c0"))
    with pytest.raises(StepError, match="there is no pod db; there are web"):
        pods.container("db/c0")
    with pytest.raises(StepError, match="has no container c1; it has c0"):
        pods.container("web/c1")


def test_more_containers_of_a_pod_keep_its_uid_and_class() -> None:
    pods = Pods(empty("prod/web"))
    first = known(pods, create("web", "prod", "c0", qos=QosClass.BURSTABLE))
    second = pods.planned(create("web", None, "c1"))
    assert (second.pod_uid, second.qos) == (first.spec.pod_uid, QosClass.BURSTABLE)
    assert [c.name for c in second.containers] == ["c0", "c1"]


def test_the_class_follows_from_the_containers_where_nobody_tells_it() -> None:
    assert new_pod(create("a"), (ContainerSpec("c"),)).qos is QosClass.BEST_EFFORT
    assert new_pod(create("a"), (ContainerSpec("c", 1000, 1000, 1, 1),)).qos is QosClass.GUARANTEED
    assert new_pod(create("a"), (ContainerSpec("c", 1000, 1000),)).qos is QosClass.BURSTABLE


def test_a_new_attempt_takes_the_place_of_the_old_one() -> None:
    pods = Pods(empty("default/web"))
    pod = known(pods, create("web", None, "a", "b"))
    spec = pod.attempts[0].spec
    assert [a.id for a in pod.with_attempt(Attempt(spec, "new", 1)).attempts] == ["new", "id-b"]
    assert [a.id for a in pod.without("a").attempts] == ["id-b"]


def test_a_pod_that_was_dropped_is_gone() -> None:
    pods = Pods(empty("default/web"))
    pods.drop(known(pods, create("web", None, "c0")))
    assert list(pods) == []
    assert pods.existing(create("web")) is None
