import pytest

from cri_proxy.cri_client.pods import ContainerRole
from cri_proxy.simulate.plan.pods import MOST_PODS, PlannedPod, PlannedWorkload, arrivals_of, read_workloads, shuffled
from cri_proxy.yaml_fields import DocumentError
from policies.base import QosClass

WEB = """\
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  template:
    metadata: {labels: {app: web}, annotations: {a: x, b: {c: d}}}
    spec:
      initContainers:
      - {name: first, resources: {limits: {cpu: 4, memory: 1Gi}}}
      - {name: proxy, restartPolicy: Always, resources: {limits: {cpu: 1, memory: 1Gi}}}
      containers:
      - {name: app, resources: {limits: {cpu: 2, memory: 1Gi, hugepages-2Mi: 4Mi, x.io/gpu: 1}}}
"""
AGENT = "kind: DaemonSet\nmetadata: {name: agent}\nspec: {template: {spec: {containers: [{name: a}]}}}\n"


def workloads(text: str) -> list[PlannedWorkload]:
    return list(read_workloads(text, "m.yaml", "default"))


def arrivals(text: str, nodes: int = 2) -> tuple[PlannedPod, ...]:
    return arrivals_of(workloads(text), nodes)


def test_a_pod_is_all_that_its_manifest_says() -> None:
    (web,) = workloads(WEB)
    first, *_ = arrivals(WEB)
    assert (web.name, web.copies, web.others) == ("Deployment web", 3, ("x.io/gpu",))
    assert first.create.annotations == (("a", "x"), ("b", '{"c": "d"}'))
    roles = [container.role for container in first.pod.containers]
    assert roles == [ContainerRole.INIT, ContainerRole.SIDECAR, ContainerRole.REGULAR]
    assert first.pod.containers[-1].huge_pages == (("2MB", 4 << 20),)
    assert (first.pod.qos, first.pod.cpu_request_mcpu, first.pod.namespace) == (QosClass.GUARANTEED, 4000, "shop")


def test_copies_are_numbered_and_those_of_every_node_come_first() -> None:
    found = arrivals(f"{WEB}---\n{AGENT}")
    assert [(each.create.pod, each.node) for each in found] == [
        *(("agent-0", 0), ("agent-1", 1)),
        *(("web-0", None), ("web-1", None), ("web-2", None)),
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a}]}", ["p"]),
        ("kind: Pod\ncount: 2\nmetadata: {name: p}\nspec: {containers: [{name: a}]}", ["p-0", "p-1"]),
        ("kind: Job\nmetadata: {generateName: j-}\nspec: {template: {spec: {containers: [{name: a}]}}}", ["j-0"]),
        ("kind: Service\nmetadata: {name: s}", []),
        ("kind: Pod\nmetadata: {name: p}\nspec: {}", []),
    ],
)
def test_what_says_no_number_is_one(text: str, names: list[str]) -> None:
    assert [each.create.pod for each in arrivals(text)] == names


def test_two_workloads_of_one_name_keep_their_pods_apart() -> None:
    text = f"{WEB}---\n{WEB.replace('Deployment', 'StatefulSet')}"
    assert len({each.create.pod for each in arrivals(text)}) == 6


POD_OF_THAT_NAME = "kind: Pod\nmetadata: {name: web-0, namespace: shop}\nspec: {containers: [{name: a}]}\n"


@pytest.mark.parametrize("texts", [(WEB, POD_OF_THAT_NAME), (POD_OF_THAT_NAME, WEB), (POD_OF_THAT_NAME,) * 4])
def test_no_two_pods_have_one_name_whatever_workload_they_are_of(texts: tuple[str, ...]) -> None:
    names = [each.create.pod for each in arrivals("---\n".join(texts))]
    assert len(set(names)) == len(names) == 4


def test_pods_of_one_name_in_two_namespaces_keep_it() -> None:
    found = arrivals(f"{POD_OF_THAT_NAME}---\n{POD_OF_THAT_NAME.replace('shop', 'farm')}")
    assert [(each.create.namespace, each.create.pod) for each in found] == [("shop", "web-0"), ("farm", "web-0")]
    assert [each.workload for each in found] == ["Pod shop/web-0", "Pod farm/web-0"]


def test_a_random_order_is_that_of_its_seed() -> None:
    found = arrivals(f"{WEB.replace('3', '30')}---\n{AGENT}")
    assert shuffled(found, 7) == shuffled(found, 7) != shuffled(found, 8)
    assert sorted(a.create.pod for a in shuffled(found, 7)) == sorted(a.create.pod for a in found)
    assert [each.node for each in shuffled(found, 7)[:2]] == [0, 1]


def test_more_pods_than_can_be_planned_are_refused() -> None:
    with pytest.raises(DocumentError, match="at most"):
        arrivals(WEB.replace("replicas: 3", f"replicas: {MOST_PODS + 1}"))


def test_what_is_not_yaml_is_named_with_its_line() -> None:
    with pytest.raises(DocumentError, match=r"m\.yaml:2"):
        workloads("kind: Pod\n\t- x\n")


@pytest.mark.parametrize("cpu", ["abc", "nan", "-1", "１", "1e400", '""', "[1]", "{a: 1}"])
@pytest.mark.parametrize("which", ["limits", "requests"])
def test_a_quantity_that_kubernetes_refuses_is_named_with_its_line(cpu: str, which: str) -> None:
    container = f"  - name: a\n    resources: {{{which}: {{cpu: {cpu}}}}}\n"
    text = f"kind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n{container}"
    with pytest.raises(DocumentError, match=rf"m\.yaml:6: Pod p: resources\.{which}\.cpu: expected a quantity"):
        workloads(text)


@pytest.mark.parametrize("resource", ["memory", "ephemeral-storage", "hugepages-2Mi", "x.io/gpu"])
def test_every_resource_is_a_quantity(resource: str) -> None:
    with pytest.raises(DocumentError, match=f"{resource}: expected a quantity like 2Gi or 512M, got 'much'"):
        workloads(f"kind: Pod\nspec: {{containers: [{{name: a, resources: {{limits: {{{resource}: much}}}}}}]}}")
    assert workloads(f"kind: Pod\nspec: {{containers: [{{name: a, resources: {{limits: {{{resource}: }}}}}}]}}")


def test_quantities_of_the_pod_itself_and_of_init_containers_are_checked() -> None:
    bad = "resources: {requests: {cpu: -1}}"
    for spec in (
        f"{{{bad}, containers: [{{name: a}}]}}",
        f"{{containers: [{{name: a}}], initContainers: [{{{bad}}}]}}",
    ):
        with pytest.raises(DocumentError, match="got '-1'"):
            workloads(f"kind: Pod\nspec: {spec}")


@pytest.mark.parametrize("count", ["-3", "3.5", "three", "'3'", "３", "[3]", "2147483648", "9" * 5000, "true"])
def test_a_number_of_pods_that_kubernetes_refuses_is_named_with_its_line(count: str) -> None:
    with pytest.raises(DocumentError, match=r"m\.yaml:4: Deployment web: spec\.replicas: expected a whole number"):
        workloads(WEB.replace("replicas: 3", f"replicas: {count}"))


@pytest.mark.parametrize(
    ("spec", "copies"),
    [("parallelism: 4, completions: 2", 2), ("parallelism: 2, completions: 4", 2), ("completions: 3", 1), ("a: b", 1)],
)
def test_a_job_runs_no_more_pods_than_it_has_completions(spec: str, copies: int) -> None:
    text = f"kind: Job\nmetadata: {{name: j}}\nspec: {{{spec}, template: {{spec: {{containers: [{{name: a}}]}}}}}}"
    assert [each.copies for each in workloads(text)] == [copies]


def test_a_number_of_pods_beyond_what_can_be_planned_is_no_single_pod() -> None:
    with pytest.raises(DocumentError, match="999999 pods"):
        arrivals(WEB.replace("replicas: 3", "replicas: 999999"))
