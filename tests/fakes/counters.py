"""What a test reads of the counters."""

from cri_proxy.metrics.counters import Counters
from cri_proxy.metrics.metric import Metric


def count_of(counters: Counters, metric: Metric, *labels: str) -> object:
    """The value of one series; 0 where there is none yet."""
    found = {(sample.metric, sample.labels): sample.value for sample in counters.samples()}
    return found.get((metric, labels), 0)
