from pathlib import Path

from cri_proxy.metrics.catalog import TABLE
from cri_proxy.metrics.docs import metrics_page

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "metrics.md"


def test_the_page_is_what_the_table_says() -> None:
    remedy = "run: python -m cri_proxy.metrics.docs > docs/reference/metrics.md"
    assert PAGE.read_text() == metrics_page(), remedy


def test_every_metric_has_its_row() -> None:
    assert [metric.name for metric in TABLE if f"| `{metric.name}` | {metric.kind} |" not in metrics_page()] == []
