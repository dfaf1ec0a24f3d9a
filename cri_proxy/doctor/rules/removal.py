"""Judge whether the kubelet depends on cri-proxy: what refuses the removal of its package. Pure."""

from collections.abc import Iterator

from cri_proxy.doctor.catalog import Finding, FindingCode
from cri_proxy.doctor.facts.model import HostFacts
from cri_proxy.kubelet.settings import ENDPOINT


def uses_proxy(facts: HostFacts) -> Iterator[Finding]:
    """Name each reason: the running kubelet's connection or flags, and what its next start will use."""
    kubelet, own = facts.kubelet, facts.proxy
    now, coming = kubelet.now.get(ENDPOINT), kubelet.next.get(ENDPOINT)
    if kubelet.process is not None and (kubelet.is_client or own.is_named_by(now.value)):
        how = "is connected to cri-proxy" if kubelet.is_client else f"takes {now.value} from {now.where}"
        yield FindingCode.USES_PROXY.finding(
            f"the running kubelet (process {kubelet.process.pid}) {how}", "systemctl stop kubelet"
        )
    if own.is_named_by(coming.value):
        yield FindingCode.USES_PROXY.finding(
            f"{coming.where} has {coming.value}: the kubelet's next start uses cri-proxy",
            f"remove it from {coming.where.partition(', --')[0]}, then systemctl daemon-reload",
        )
