import random

import pytest

from cri_proxy.node_topology.fingerprint import fingerprint, xxh64

# As published beside the reference (testdata/compat-small-10pods-3ns).
TEN_PODS = (
    ("analytics", "controller-69dkj"),
    ("kube-public", "subscriber-tq6v7"),
    ("kube-public", "transformer-hfbng"),
    ("kube-public", "validator-c6pn5"),
    ("kube-system", "proxy-wszrd"),
    ("middleware", "processor-jkrl4"),
    ("network", "gateway-vsll5"),
    ("network", "importer-kzdfr"),
    ("network", "importer-q5vt9"),
    ("staging", "prometheus-bwgbn"),
)


def test_ten_pods_have_the_published_fingerprint_in_any_order() -> None:
    shuffled = random.Random(1).sample(TEN_PODS, k=len(TEN_PODS))
    assert fingerprint(TEN_PODS) == fingerprint(shuffled) == "pfp0v001567144e4a561bb5a"


def test_another_namespace_is_another_pod() -> None:
    assert fingerprint([("a", "b")]) != fingerprint([("b", "a")])


def test_no_pod_has_the_hash_of_nothing() -> None:
    assert fingerprint([]) == "pfp0v001ef46db3751d8e999"


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"a" * 100, 0, "375041e8b1decfb3"),  # stripes, and half a word at the end
        (b"x" * 45, 7, "097049e48227a204"),  # stripes, a word, half a word, a byte
    ],
)
def test_long_texts_have_the_hashes_of_the_reference(data: bytes, seed: int, expected: str) -> None:
    assert f"{xxh64(data, seed):016x}" == expected
