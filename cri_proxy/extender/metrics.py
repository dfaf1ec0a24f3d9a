"""The metrics of the extender, which is a process of its own: none of them is the daemon's."""

from typing import Final

from cri_proxy.metrics.metric import Label, Metric, counter, histogram

VERBS: Final = ("filter", "prioritize")
STATES: Final = ("scored", "unpublished", "malformed", "short", "busy", "parts", "late")
_VERB: Final = Label("verb", VERBS)

REQUESTS: Final = counter(
    "cri_proxy_extender_requests_total",
    "Requests of the scheduler by what became of them.",
    _VERB,
    Label("outcome", ("answered", "skipped", "refused")),
)
NODES: Final = counter(
    "cri_proxy_extender_nodes_total",
    "Nodes that were to be scored, by what their links are known to be.",
    Label("state", STATES),
)
DURATION: Final = histogram(
    "cri_proxy_extender_request_duration_seconds",
    "Duration of an answer to the scheduler, without the time to receive and send it.",
    (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5),
    _VERB,
)
TABLE: Final[tuple[Metric, ...]] = (REQUESTS, NODES, DURATION)
