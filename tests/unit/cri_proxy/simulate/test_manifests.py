import pytest

from cri_proxy.simulate.manifests import PodManifest, qos_of_pod, read_manifests

GIB = 1 << 30
SPEC = "spec: {containers: [{name: a}], initContainers: [{name: first}]}"


def only(text: str) -> PodManifest:
    (pod,) = read_manifests(text)
    return pod


def templated(kind: str, template: str = "{metadata: {annotations: {k: v}}, spec: {containers: [{name: a}]}}") -> str:
    inner = f"{{jobTemplate: {{spec: {{template: {template}}}}}}}" if kind == "CronJob" else f"{{template: {template}}}"
    return f"kind: {kind}\nmetadata: {{name: web, namespace: shop}}\nspec: {inner}\n"


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"])
def test_the_pods_of_a_workload_are_those_of_its_template(kind: str) -> None:
    pod = only(templated(kind))
    assert (pod.workload, pod.namespace) == (f"{kind} web", "shop")
    assert [(item.key, [c.name for c in pod.containers]) for item in pod.annotations] == [("k", ["a"])]


def test_a_pod_has_its_init_containers_first_and_its_annotations_their_place() -> None:
    text = f"kind: Pod\nmetadata:\n  generateName: job-\n  annotations:\n    x: '1'\n    y: |\n      z\n{SPEC}"
    pod = only(text)
    assert (pod.workload, [c.name for c in pod.containers]) == ("Pod job-", ["first", "a"])
    assert [(item.key, item.line, item.column) for item in pod.annotations] == [("x", 5, 5), ("y", 6, 5)]


def test_lists_and_documents_are_read_and_other_objects_passed_over() -> None:
    pod = f"{{kind: Pod, metadata: {{name: p}}, {SPEC}}}"
    items = f"items: [{pod}, {{kind: Secret}}, {{kind: PodList, items: [{pod}]}}]"
    text = f"# Source: chart\nkind: Service\n---\nkind: List\n{items}"
    assert len(list(read_manifests(f"{text}\n---\n{pod}\n---\n[1, 2]\n---\nname: no kind\n"))) == 3


@pytest.mark.parametrize(
    ("resources", "qos", "why"),
    [
        ("{}", "BestEffort", ""),
        ("{limits: {cpu: 2, memory: 1Gi}}", "Guaranteed", ""),
        ("{requests: {cpu: 2000m, memory: 1024Mi}, limits: {cpu: 2, memory: 1Gi}}", "Guaranteed", ""),
        ("{requests: {cpu: 1}}", "Burstable", "container a has no CPU limit"),
        ("{limits: {cpu: 2}}", "Burstable", "container a has no memory limit"),
        (
            "{requests: {cpu: 1}, limits: {cpu: 2, memory: 1Gi}}",
            "Burstable",
            "container a has another CPU request than limit",
        ),
        ("{requests: {cpu: 0}}", "BestEffort", ""),
        ("{limits: {cpu: much}}", "BestEffort", ""),
    ],
)
def test_the_class_of_a_pod_is_that_of_its_figures(resources: str, qos: str, why: str) -> None:
    found = qos_of_pod(only(f"kind: Pod\nspec: {{containers: [{{name: a, resources: {resources}}}]}}"))
    assert found == (qos, why)


def test_one_container_without_limits_makes_the_pod_burstable() -> None:
    whole = "resources: {limits: {cpu: 1, memory: 1Gi}}"
    pod = only(f"kind: Pod\nspec: {{containers: [{{name: a, {whole}}}], initContainers: [{{name: init}}]}}")
    assert qos_of_pod(pod) == ("Burstable", "container init has no CPU limit")


def test_resources_of_the_pod_itself_decide() -> None:
    pod = only("kind: Pod\nspec: {resources: {limits: {cpu: 4, memory: 2Gi}}, containers: [{name: a}]}")
    assert (pod.whole and pod.whole.limits, qos_of_pod(pod)) == ((4000, 2 * GIB), ("Guaranteed", ""))


@pytest.mark.parametrize(
    "text", ["kind: Pod", "kind: Pod\nspec: 1", "kind: Pod\nspec: {containers: {a: b}}", "kind: [Pod]"]
)
def test_a_shape_that_kubernetes_would_refuse_has_no_containers(text: str) -> None:
    assert [pod.containers for pod in read_manifests(text)] in ([()], [])
