import pytest

from cri_proxy.errors import ConfigError
from cri_proxy.kubelet.device_plugin.settings import plugin_resources
from policies.devices import DeviceOffer, OfferForm


def test_without_names_each_type_has_one_in_our_domain_and_an_endpoint() -> None:
    found = {resource.name: (resource.endpoint, resource.is_named) for resource in plugin_resources((), ())}
    assert found["cri-proxy.io/rdma"] == ("cri-proxy-rdma.sock", False)
    assert len(found) == 4


def test_a_name_leaves_out_the_types_without_one() -> None:
    (resource,) = plugin_resources(["gpu=nvidia.com/gpu"], ())
    assert (resource.kind, resource.name, resource.is_named) == ("gpu", "nvidia.com/gpu", True)


def test_a_form_is_that_of_its_type() -> None:
    forms = {resource.kind: resource.offer for resource in plugin_resources((), ["rdma=shares:4"])}
    assert forms["rdma"] == DeviceOffer(OfferForm.SHARES, 4)
    assert forms["gpu"] == DeviceOffer()


@pytest.mark.parametrize(
    ("names", "forms", "problem"),
    [
        (["gpu"], [], "--resource gpu: expected TYPE=VALUE with one of the types gpu, rdma, fpga"),
        (["tpu=a.io/b"], [], "--resource tpu=a.io/b: expected TYPE=VALUE"),
        (["gpu=a.io/b", "gpu=a.io/c"], [], "--resource gpu=a.io/c: gpu stands twice"),
        (["gpu=a.io/b", "rdma=a.io/b"], [], "another type has this name"),
        (["gpu=gpu"], [], "expected a name with a domain, like example.com/gpu"),
        (["gpu=a.io/" + "x" * 64], [], "expected a name with a domain"),
        (["gpu=" + "a." * 130 + "io/x"], [], "expected a name with a domain"),
        (["gpu=kubernetes.io/gpu"], [], "the domain is that of Kubernetes itself"),
        (["gpu=x.kubernetes.io/gpu"], [], "the domain is that of Kubernetes itself"),
        (["gpu=requests.io/gpu"], [], "the domain is that of Kubernetes itself"),
        ([], ["gpu=half"], "--offer gpu=half: expected whole, vfs, shares:N"),
        (["gpu=a.io/b"], ["rdma=vfs"], "--offer rdma=vfs: name the resource too: --resource rdma=NAME"),
    ],
)
def test_options_that_cannot_be_served_are_errors_with_the_option(
    names: list[str], forms: list[str], problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        plugin_resources(names, forms)
    assert str(caught.value).startswith("command line: --")
    assert problem in str(caught.value)
