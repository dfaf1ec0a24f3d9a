"""``NodeRules`` (the operator's options), ``Signals`` and ``Context``: values that all modules of the node share."""

import asyncio
from dataclasses import dataclass, field
from typing import Literal, Self

from cri_proxy.clock import Clock
from cri_proxy.config.model import Config
from cri_proxy.config.option_groups import ThreadCountOptions
from cri_proxy.cri.annotations.cache import AnnotationCache
from cri_proxy.cri.annotations.rules import AnnotationRules
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.node.persistence import Persistence
from cri_proxy.runtime.cdi_support import Choice
from cri_proxy.runtime.channel import RuntimeChannel
from cri_proxy.signals import Signal
from cri_proxy.state.rows import Row
from cri_proxy.tasks import Tasks
from policies.topology_aware.options import TopologyAwareOptions


@dataclass(frozen=True, slots=True)
class NodeRules:
    """The operator's choices that the coordinator follows; a reload replaces them as a whole."""

    on_shortage: Literal["admit", "refuse"] = "admit"
    on_policy_error: Literal["passthrough", "reject"] = "passthrough"
    on_store_error: Literal["continue", "reject"] = "continue"
    adopt: Literal["pin", "leave"] = "pin"
    honours_claims: bool = True
    strict_annotations: bool = False
    resource_files: Literal["auto", "always", "never"] = "auto"
    lift_quota: bool = False
    fraction_shares: bool = False
    thread_counts: ThreadCountOptions = ThreadCountOptions()  # noqa: RUF009 - frozen
    annotations: AnnotationRules = AnnotationRules()  # noqa: RUF009 - frozen
    drift_check_seconds: float = 60.0  # 0 = never
    cdi: Choice = "auto"

    @classmethod
    def of(cls, config: Config) -> Self:
        """Return the rules of this configuration."""
        enacted = config.of_policy(TopologyAwareOptions)
        return cls(
            on_shortage=config.on_shortage,
            on_policy_error=config.on_policy_error,
            on_store_error=config.on_store_error,
            adopt=config.adopt,
            honours_claims=config.claims == "honour",
            strict_annotations=config.strict_annotations,
            resource_files=config.resource_files,
            lift_quota=enacted.lift_quota,
            fraction_shares=enacted.fraction_shares,
            thread_counts=config.thread_counts,
            annotations=AnnotationRules(config.annotation_domains, config.restricted_annotations),
            drift_check_seconds=config.drift_check_seconds,
            cdi=config.cdi,
        )


@dataclass(frozen=True, slots=True)
class Signals:
    """What lower parts of the node report to the parts above them."""

    ledger_changed: Signal[[]] = field(default_factory=Signal)  # a grant or a confirmed pinning
    container_vanished: Signal[[Row]] = field(default_factory=Signal)  # the runtime does not know it any more
    room_freed: Signal[[]] = field(default_factory=Signal)  # a grant was given back
    cold_start_began: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class Context:
    """The node's shared parts. Only the content of ledger and caches changes, and only on the event loop."""

    ledger: Ledger
    channel: RuntimeChannel
    persistence: Persistence
    tasks: Tasks
    journal: Journal
    clock: Clock
    signals: Signals
    annotations: AnnotationCache = field(default_factory=AnnotationCache)  # of the pods' sandboxes
