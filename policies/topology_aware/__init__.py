"""The topology-aware policy."""

from policies.lazy_import import door

__getattr__ = door(
    __name__,
    """
    claims.budget: unpaid_claims
    devices.cost_choice: SELECT
    options: SYSTEM_NAMESPACE, TopologyAwareOptions
    policy: TopologyAware
    reason_codes: ReasonCode
    score: MEANINGS, WHY_WORSE
    supply.memory_account: promised_bytes
    """,
)
