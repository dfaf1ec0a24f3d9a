import pytest

from cri_proxy.extender.metrics import STATES, TABLE
from cri_proxy.metrics.catalog import TABLE as OF_THE_DAEMON
from cri_proxy.metrics.metric import Metric
from tests.house.tree import ROOT


@pytest.mark.parametrize("metric", TABLE, ids=lambda metric: metric.name)
def test_a_metric_is_the_extenders_own_and_told_on_the_page(metric: Metric) -> None:
    assert metric.name.startswith("cri_proxy_extender_")
    assert metric.name not in {other.name for other in OF_THE_DAEMON}
    assert f"`{metric.name}`" in (ROOT / "docs" / "gpu-links.md").read_text()


@pytest.mark.parametrize("state", STATES)
def test_each_state_of_a_node_is_told_on_the_page(state: str) -> None:
    assert f"`{state}`" in (ROOT / "docs" / "gpu-links.md").read_text()
