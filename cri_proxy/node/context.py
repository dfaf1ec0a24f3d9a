"""``Signals`` and ``Context``: values that all modules of the node share."""

import asyncio
from dataclasses import dataclass, field

from cri_proxy.clock import Clock
from cri_proxy.cri.annotations.cache import AnnotationCache
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.node.persistence import Persistence
from cri_proxy.runtime.channel import RuntimeChannel
from cri_proxy.signals import Signal
from cri_proxy.state.rows import Row
from cri_proxy.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Signals:
    """Signals from lower parts of the node to the parts above them."""

    ledger_changed: Signal[[]] = field(default_factory=Signal)  # a grant or a confirmed pinning
    container_ended: Signal[[Row, str]] = field(default_factory=Signal)  # as an update of it has shown, and how
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
    annotations: AnnotationCache = field(default_factory=AnnotationCache)
