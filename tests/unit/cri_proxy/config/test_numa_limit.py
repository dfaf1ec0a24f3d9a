import pytest

from cri_proxy.config.numa_limit import most_numa_nodes


@pytest.mark.parametrize("text", ["7", "-1", "", "eight", "1.5", "\u0668"])
def test_fewer_nodes_than_the_kubelet_manages_by_itself_cannot_be_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected 0 \(no limit\), or a number from 8"):
        most_numa_nodes(text)
