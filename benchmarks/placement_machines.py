"""Machines on which placements are measured (benchmarks/placement.py)."""


def ladder(nodes: int) -> list[list[int]]:
    """Distances of sockets in a row: 10, 21, 31, 41 and so on."""
    return [[10 if a == b else 11 + 10 * abs(a - b) for b in range(nodes)] for a in range(nodes)]


def caches(count: int, cpus: int) -> list[str]:
    """L3 domains of so many CPUs each, side by side."""
    return [f"{i * cpus}-{(i + 1) * cpus - 1}" for i in range(count)]


SHAPES: dict[str, dict[str, object]] = {
    "2 sockets": {"packages": 2, "cores": 16, "threads": 2, "memory": "128Gi"},
    "2 sockets, 4 nodes each": {"packages": 2, "nodes": 4, "cores": 4, "threads": 2, "memory": "32Gi"},
    "2 sockets, 2 nodes each": {"packages": 2, "nodes": 2, "cores": 8, "threads": 2, "memory": "64Gi"},
    "4 sockets in a row": {"packages": 4, "cores": 8, "threads": 2, "memory": "64Gi", "distances": ladder(4)},
    "8 sockets in a row": {"packages": 8, "cores": 4, "threads": 2, "memory": "32Gi", "distances": ladder(8)},
    "1 socket, 8 caches": {"cores": 32, "threads": 2, "memory": "256Gi", "l3": caches(8, 8)},
    "2 sockets, 2 nodes, 2 caches each": {
        "packages": 2,
        "nodes": 2,
        "cores": 8,
        "threads": 2,
        "memory": "64Gi",
        "l3": caches(8, 8),
    },
    "no threads": {"packages": 2, "nodes": 4, "cores": 8, "memory": "32Gi"},
    "threads far apart": {"packages": 2, "nodes": 2, "cores": 8, "threads": 2, "numbering": "split", "memory": "64Gi"},
}

PACKED: dict[str, dict[str, object]] = {  # 16 domains of 16 CPUs each
    "2 sockets, 8 nodes each": {"packages": 2, "nodes": 8, "cores": 8, "threads": 2, "memory": "32Gi"},
    "1 socket, 16 caches": {"cores": 128, "threads": 2, "memory": "512Gi", "l3": caches(16, 16)},
    "2 sockets, 2 nodes, 4 caches each": {
        "packages": 2,
        "nodes": 2,
        "cores": 32,
        "threads": 2,
        "memory": "128Gi",
        "l3": caches(16, 16),
    },
}

FILLED: dict[str, dict[str, object]] = {  # beside the kubelet, up to 85 % of the CPUs owned
    "2 sockets, 4 nodes of 16 each": {"packages": 2, "nodes": 4, "cores": 16, "memory": "64Gi"},
    "2 sockets, 2 nodes, 4 caches of 16 each": {
        "packages": 2,
        "nodes": 2,
        "cores": 64,
        "memory": "64Gi",
        "l3": caches(16, 16),
    },
    "4 sockets of 32": {"packages": 4, "cores": 32, "memory": "64Gi"},
    "1 socket, 8 caches of 16": {"cores": 128, "memory": "64Gi", "l3": caches(8, 16)},
    "8 sockets of 16": {"packages": 8, "cores": 16, "memory": "64Gi"},
    "2 sockets, 3 nodes of 20 threads": {"packages": 2, "nodes": 3, "cores": 10, "threads": 2, "memory": "64Gi"},
    "2 sockets, 8 caches of 8 threads": {
        "packages": 2,
        "cores": 32,
        "threads": 2,
        "memory": "64Gi",
        "l3": caches(16, 8),
    },
    "4 sockets, 2 nodes of 24": {"packages": 4, "nodes": 2, "cores": 24, "memory": "64Gi"},
}
