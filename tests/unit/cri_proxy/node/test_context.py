from dataclasses import fields

from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config
from cri_proxy.node.context import NodeRules

OTHERS = """
onShortage: refuse
onPolicyError: reject
onStoreError: reject
adopt: leave
strictAnnotations: true
resourceFiles: never
topologyAware: {LiftQuota: true, FractionShares: true}
threadCounts: {from: owned}
annotationDomains: [example.com]
driftCheckSeconds: 0
cdi: resolve
claims: ignore
"""


def test_the_rules_of_the_default_configuration_are_the_defaults() -> None:
    assert NodeRules.of(Config()) == NodeRules()


def test_every_rule_follows_the_configuration() -> None:
    changed = NodeRules.of(parse_config(OTHERS))
    assert [f.name for f in fields(NodeRules) if getattr(changed, f.name) == getattr(NodeRules(), f.name)] == []
