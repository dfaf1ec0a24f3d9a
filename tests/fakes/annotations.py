"""Annotations as the tests read them: without restrictions, and without keeping anything."""

from collections.abc import Mapping, Sequence

from cri_proxy.cri.annotations.pod import parse_pod, select
from cri_proxy.cri.annotations.read import Parsed, read_container
from cri_proxy.cri.annotations.rules import DOMAINS, AnnotationRules


def parse_annotations(annotations: Mapping[str, str], container: str, domains: Sequence[str] = DOMAINS) -> Parsed:
    """What a pod's annotations say of this container."""
    pod = parse_pod(select(annotations, domains), domains)
    return read_container(pod, container, "", AnnotationRules(tuple(domains)))
