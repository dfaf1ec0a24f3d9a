"""Read how many NUMA nodes a machine may have whose topology hints are merged."""

from contextlib import suppress

from policies.hints.merge import KUBELET_NODES


def most_numa_nodes(text: str) -> int:
    """Return the most NUMA nodes of a machine whose hints are merged, 0 for no limit. Raises ValueError.

    The kubelet takes no number below 8 either (max-allowable-numa-nodes of its topology-manager-policy-options).

    >>> most_numa_nodes("0"), most_numa_nodes("16")
    (0, 16)
    """
    with suppress(ValueError):
        most = int(text) if text.isascii() and text.isdigit() else -1
        if most == 0 or most >= KUBELET_NODES:
            return most
    raise ValueError(f"expected 0 (no limit), or a number from {KUBELET_NODES}, got {text!r}")
