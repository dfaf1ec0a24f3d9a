"""Read the devices that Koordinator's scheduler has chosen for a pod, from an annotation of the pod. Pure.

They say which devices a container gets of those that it asks for in its own amounts (``device-resources``): a container
without amounts gets none by them, as the pod's author could write them, too (docs/adr/0015-claims.md).
"""

from collections.abc import Mapping
from dataclasses import replace

from cri_proxy.cri.annotations.forms import AnnotationProblem, cut
from cri_proxy.cri.annotations.read import WITHOUT_EFFECT
from cri_proxy.cri.annotations.rules import AnnotationRules
from cri_proxy.cri.read_request import ReadRequest
from policies.devices import DEVICE_ALLOCATED, AnnotationError, read_annotations


def with_device_claim(read: ReadRequest, annotations: Mapping[str, str], rules: AnnotationRules) -> ReadRequest:
    """Return the request with the devices that were chosen for its pod; one that does not count is a problem."""
    text, asked = annotations.get(DEVICE_ALLOCATED, ""), read.request.preferences.devices
    if not text or not asked.requests:
        return read
    origins = tuple(each for each in read.request.origins if each[0] != f"{WITHOUT_EFFECT}{DEVICE_ALLOCATED}")
    problem = rules.refused_in(read.request.pod.namespace).get(DEVICE_ALLOCATED, "") or _problem(text)
    if problem:
        problems = (*read.problems, AnnotationProblem(DEVICE_ALLOCATED, cut(text), problem))
        return replace(read, request=replace(read.request, origins=origins), problems=problems)
    asked = replace(asked, annotations=tuple(sorted((*asked.annotations, (DEVICE_ALLOCATED, text)))))
    preferences = replace(read.request.preferences, devices=asked)
    return replace(read, request=replace(read.request, preferences=preferences, origins=origins))


def _problem(text: str) -> str:
    try:
        read_annotations({DEVICE_ALLOCATED: text})
    except AnnotationError as error:
        return error.problem
    return ""
