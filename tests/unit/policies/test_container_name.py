from policies.container_name import ContainerName
from tests.unit.policies.build import request


def test_a_container_is_called_by_its_namespace_pod_and_name() -> None:
    assert str(ContainerName("shop", "web-0", "nginx")) == "shop/web-0/nginx"
    assert str(ContainerName("", "", "nginx")) == "nginx"


def test_a_request_has_the_name_of_its_container() -> None:
    wanted = request("p/c")
    assert wanted.full_name == ContainerName(wanted.pod.namespace, wanted.pod.name, "c")
