import pytest

from cri_proxy.doctor.rules.endpoint import uses_proxy
from cri_proxy.kubelet.distributions import DISTRIBUTIONS, PLAIN
from tests.fakes.node_facts import THEIRS, WIRED, codes, healthy, kubelet, settings

ELSEWHERE = settings(f"containerRuntimeEndpoint: {THEIRS}")


@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        ({"now": ELSEWHERE, "next": ELSEWHERE, "is_client": False}, 0),
        ({"now": ELSEWHERE, "next": ELSEWHERE, "is_client": True}, 1),
        ({"next": ELSEWHERE, "is_client": False}, 1),
        ({"now": ELSEWHERE, "is_client": False}, 1),
        ({"process": None, "is_client": None}, 1),
        ({"process": None, "is_client": None, "next": ELSEWHERE}, 0),
        ({}, 2),
    ],
)
def test_a_connection_a_flag_or_a_file_is_a_reason(change: dict[str, object], reasons: int) -> None:
    assert codes(uses_proxy, healthy(kubelet=kubelet(WIRED, **change))) == ["uses-proxy"] * reasons


def test_where_the_kubelet_is_no_service_no_unit_is_read_again() -> None:
    k3s = next(each for each in DISTRIBUTIONS if each.name == "k3s")
    told = [list(uses_proxy(healthy(kubelet=kubelet(WIRED, distribution=found))))[-1].remedy for found in (k3s, PLAIN)]
    assert [remedy.endswith(", then systemctl daemon-reload") for remedy in told] == [False, True]
