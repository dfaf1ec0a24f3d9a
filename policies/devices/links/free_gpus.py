"""Which GPUs of a node are free, as the node publishes them beside its links. Pure."""

import re
from collections.abc import Collection, Mapping
from typing import Final

from policies.devices.links.annotation import LABEL_DOMAIN, MAX_PUBLISHED_GPUS
from sysfs.cpuset import CpuSet, CpuSetError

FREE_ANNOTATION: Final = "cri-proxy.io/gpu-free"
FREE_LABEL: Final = f"{LABEL_DOMAIN}/free"
"""The annotation, or the label, of a node: a list of its free GPUs with dots, as a label has no commas."""

_NONE: Final = "none"
_FORM: Final = re.compile(r"[0-9.-]{1,63}")


def free_text(gpus: Collection[int]) -> str:
    """Return the value for these GPUs.

    >>> free_text({0, 1, 2, 5}), free_text(())
    ('0-2.5', 'none')
    """
    return str(CpuSet.of(gpus)).replace(",", ".") or _NONE


def read_free_gpus(published: Mapping[str, object]) -> frozenset[int] | None:
    """Return the GPUs that a node's annotations or labels have as free; None where none of them does, or not readably.

    >>> read_free_gpus({"gpu-links.cri-proxy.io/free": "0-2.5"}), read_free_gpus({FREE_ANNOTATION: "none"})
    (frozenset({0, 1, 2, 5}), frozenset())
    """
    text = published.get(FREE_ANNOTATION) or published.get(FREE_LABEL)
    if text == _NONE:
        return frozenset()
    if not isinstance(text, str) or not _FORM.fullmatch(text):
        return None
    try:
        found = CpuSet.parse(text.replace(".", ","))
    except CpuSetError:
        return None
    return frozenset(found) if found.mask.bit_length() <= MAX_PUBLISHED_GPUS * 4 else None
