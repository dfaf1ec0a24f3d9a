"""Generate the reference page of all metrics: ``python -m cri_proxy.metrics.docs``."""

import sys

from cri_proxy.metrics.catalog import TABLE, Label, Metric

_HEAD = """\
# Metrics

Written from `cri_proxy/metrics/catalog.py` by `python -m cri_proxy.metrics.docs`; do not edit.

The daemon answers `GET /metrics` in Prometheus' text format, at the address of the option `http` (127.0.0.1:8891) and
on the admin socket:

    curl -s http://127.0.0.1:8891/metrics
    curl -s --unix-socket /run/cri-proxy/admin.sock http://localhost/metrics

The address is of the node alone unless the option says otherwise; there is no password, see [security](../security.md).
A Prometheus that runs elsewhere needs `http` with an address that it reaches, or an agent on the node that scrapes for
it:

    scrape_configs:
    - job_name: cri-proxy
      static_configs:
      - targets: ["worker-1:8891", "worker-2:8891"]

Names contain their units. No label holds the name of a pod or container: the number of series depends on the machine
(its pools and memory nodes), never on what runs there. Gauges are read from the state at each scrape, so series of
what is gone disappear. Counters start at 0 with the process; `process_start_time_seconds` says when. A dashboard for
Grafana and alert rules for Prometheus are in `packaging/monitoring`; [alerts](../alerts.md) says what to do about each
alert.

| metric | kind | labels | meaning |
|---|---|---|---|
"""


def metrics_page() -> str:
    """Return the page as Markdown."""
    return _HEAD + "".join(f"| {' | '.join(_cells(metric))} |\n" for metric in TABLE)


def _cells(metric: Metric) -> tuple[str, ...]:
    labels = "; ".join(_label_text(label) for label in metric.labels)
    return f"`{metric.name}`", metric.kind, labels, metric.text


def _label_text(label: Label) -> str:
    return f"`{label.name}`: {label.bound or ', '.join(label.values)}"


if __name__ == "__main__":
    sys.stdout.write(metrics_page())
