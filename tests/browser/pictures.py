"""Draw the pictures of docs/pictures: the page of a busy node, in a headless Chromium. Run: make pictures."""

import asyncio
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from cri_proxy.cri_client.pods import PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from tests.browser.chromium import REMEDY, Chromium, Page, program
from tests.browser.scene import GIB, MACHINE, Served, busy_node, replicas, served, with_devices
from tests.browser.terminal import draw_output

DIRECTORY: Final = Path(__file__).resolve().parent.parent.parent / "docs" / "pictures"
MANIFESTS: Final = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: search, namespace: shop}
spec:
  replicas: 3
  template:
    spec:
      containers:
      - name: index
        resources:
          limits: {cpu: "4", memory: 4Gi}
---
apiVersion: v1
kind: Pod
metadata: {name: warehouse, namespace: data}
spec:
  containers:
  - name: query
    resources:
      limits: {cpu: "24", memory: 16Gi}
"""


async def ready(page: Page, url: str) -> None:
    """Open the page and wait until it is drawn."""
    await page.open(url)
    await page.shows("document.body?.dataset.drawn && document.querySelector('#rows tr')")


async def draw(scene: Served, browser: Chromium) -> None:
    """Write each picture."""
    page = await browser.new_page(1240, 800)
    await ready(page, scene.url)
    await page.point("#rows tr:nth-child(2) .name", click=True)
    await page.shows("document.querySelector('#whole h3')")
    await page.picture(DIRECTORY / "page-explain.png")
    await page.press("Escape")
    await page.point("#tab-plan", click=True)
    await page.point("#yaml", click=True)
    await page.type(MANIFESTS)
    await page.point("#submit", click=True)
    await page.shows("document.querySelector('#landings li')")
    await page.point("#landings li:nth-child(2)")
    await page.picture(DIRECTORY / "page-plan.png")
    await page.close()
    page = await browser.new_page(1240, 800, is_dark=True)
    await ready(page, scene.url)
    for spec in replicas("search", 3, guaranteed("index", 4000, memory_bytes=4 * GIB), namespace="shop"):
        await scene.kubelet.run_pod(spec)  # the last one needs room
    with suppress(CallFailed):  # a refusal, to be seen
        await scene.kubelet.run_pod(PodSpec("warehouse", (guaranteed("query", 24_000, memory_bytes=GIB),), "data"))
    await page.shows("document.querySelector('#news [data-kind=refusal]')")
    await page.point("#rows tr:nth-child(3) .name")
    await page.shows("document.querySelector('#card .why').innerText.length > 9")
    await page.picture(DIRECTORY / "page-dark.png")
    admin = ("--admin", f"unix://{scene.daemon.admin.path}")
    await draw_output(browser, "status", ("status", *admin), DIRECTORY / "status.png")
    container = "stream/kafka"
    await draw_output(browser, f"explain {container}", ("explain", container, *admin), DIRECTORY / "explain.png")
    await page.resize(390, 780, is_dark=True)
    await page.picture(DIRECTORY / "page-phone.png")
    await page.close()


async def main() -> int:
    """Draw them; return 1 where no browser is installed."""
    if not program():
        print(f"no Chromium is installed: {REMEDY}", file=sys.stderr)
        return 1
    DIRECTORY.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "chromium").mkdir()
        options = with_devices(directory)
        async with served(directory, MACHINE, options) as scene, Chromium(directory / "chromium") as browser:
            for spec in busy_node():
                await scene.kubelet.run_pod(spec)
            await draw(scene, browser)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
