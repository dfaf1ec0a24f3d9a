import pytest

from cri_proxy.node.status.workload import PodWorkload, workload_of
from policies.base import Labels


@pytest.mark.parametrize(
    ("pod", "labels", "kind", "name"),
    [
        ("web-5d4f9c7b8-x2x7k", (("pod-template-hash", "5d4f9c7b8"),), "Deployment", "web"),
        ("shop-web-5d4f9c7b8-x2x7k", (), "Deployment", "shop-web"),
        ("renamed", (("pod-template-hash", "5d4f9c7b8"),), "Deployment", "renamed"),
        ("db-0", (("apps.kubernetes.io/pod-index", "0"),), "StatefulSet", "db"),
        ("db-12", (("statefulset.kubernetes.io/pod-name", "db-12"),), "StatefulSet", "db"),
        ("agent-x2x7k", (("controller-revision-hash", "7c9"),), "DaemonSet", "agent"),
        ("load-28514010-x2x7k", (("batch.kubernetes.io/job-name", "load-28514010"),), "Job", "load-28514010"),
        ("load-x2x7k", (("job-name", "load"),), "Job", "load"),
        ("agent-x2x7k", (), "", "agent"),
        ("db-0", (), "Pod", "db-0"),
        ("web", (), "Pod", "web"),
        ("my-bgprs", (), "Pod", "my-bgprs"),
    ],
)
def test_the_workload_is_told_by_labels_else_by_the_name(pod: str, labels: Labels, kind: str, name: str) -> None:
    assert workload_of(pod, labels) == PodWorkload(kind, name)
