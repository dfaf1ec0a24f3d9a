import pytest

from tests.fakes.machines import small_machine
from tests.unit.policies.build import options


@pytest.mark.parametrize(
    ("namespace", "is_reserved"),
    [("kube-system", True), ("infra-dns", True), ("default", False), ("kube-system-2", False), ("INFRA-x", False)],
)
def test_kube_system_and_the_globs_are_reserved_namespaces(namespace: str, is_reserved: bool) -> None:
    chosen = options(small_machine(), reserved_namespaces=("infra-*",))
    assert chosen.is_reserved_namespace(namespace) is is_reserved
