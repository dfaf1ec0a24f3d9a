"""The text format, read back by Prometheus' own Python client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from cri_proxy import metrics
from cri_proxy.exposition import Distribution, Sample, render


def parsed(*samples: Sample) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(render(samples).decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_a_family_is_told_once_with_its_text_and_type() -> None:
    text = render(
        [Sample(metrics.UPDATES, 1, ("refused",)), Sample(metrics.READY, 1), Sample(metrics.UPDATES, 2, ("x",))]
    )
    assert text.count(b"# TYPE cri_proxy_updates_total counter\n") == 1
    assert text.index(b'{outcome="x"} 2.0') < text.index(b"# HELP cri_proxy_ready")


@given(st.text(), st.floats(allow_nan=False))
def test_any_label_and_any_number_survives(pool: str, value: float) -> None:
    (read,) = parsed(Sample(metrics.POOL_MEMORY, value, (pool,))).items()
    assert read == (("cri_proxy_pool_memory_capacity_bytes", (("pool", pool),)), value)


def test_a_histograms_buckets_add_up() -> None:
    counts = (1, 0, 2, *[0] * (len(metrics.DECISION_BUCKETS) - 2))
    read = parsed(Sample(metrics.DECISION_SECONDS, Distribution(counts, 0.5)))
    name = "cri_proxy_decision_duration_seconds"
    assert read[f"{name}_bucket", (("le", "0.002"),)] == read[f"{name}_bucket", (("le", "+Inf"),)] == 3
    assert (read[f"{name}_count", ()], read[f"{name}_sum", ()]) == (3, 0.5)


def test_a_label_too_few_is_a_mistake_that_shows() -> None:
    with pytest.raises(ValueError, match="shorter"):
        render([Sample(metrics.POOL_MEMORY, 1)])
