import pytest

from cri_proxy.doctor.rules.endpoint import uses_proxy
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
