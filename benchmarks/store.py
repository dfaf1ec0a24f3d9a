"""What it costs to make a placement durable. Run: python benchmarks/store.py [ROUNDS].

One save is one commit with synchronous=FULL on the disk of the temporary directory (TMPDIR chooses another). Wall
time, because waiting for the disk is the point; a burst shares its commits.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cri_proxy.state.store import Store
from tests.fakes.rows import make_row

BURST = 300


async def measure(directory: Path, rounds: int) -> None:
    """Single saves one after the other, then a burst."""
    store = Store.open(directory / "state.db")
    single = []
    for i in range(rounds):
        begin = time.perf_counter()
        await store.save([make_row(f"pod-{i}", order=i + 1)])
        single.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    await asyncio.gather(*(store.save([make_row(f"burst-{i}")]) for i in range(BURST)))
    burst_seconds = time.perf_counter() - begin
    print(f"one save: median {median(single) * 1e3:.2f} ms, p99 {quantiles(single, n=100)[98] * 1e3:.2f} ms")
    print(f"{BURST} saves at once: {burst_seconds * 1e3:.1f} ms")
    await store.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(measure(Path(name), int(sys.argv[1]) if sys.argv[1:] else 500))
