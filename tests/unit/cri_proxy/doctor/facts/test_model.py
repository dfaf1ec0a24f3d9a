from cri_proxy.doctor.facts.model import listed
from tests.fakes.node_facts import proxy


def test_an_endpoint_is_known_by_its_path() -> None:
    assert proxy().endpoint == "unix:///run/cri-proxy/cri-proxy.sock"
    assert proxy().is_named_by("/var/run/cri-proxy/cri-proxy.sock")
    assert not proxy().is_named_by("unix:///run/containerd/containerd.sock")


def test_words_are_listed_as_in_a_sentence() -> None:
    assert [listed(words) for words in ([], ["a"], ["a", "b"])] == ["", "a", "a and b"]
