"""On a node that is nearly full: who would move for a pod, and that just these move when it comes."""

from collections.abc import AsyncIterator

import pytest

from cri_proxy.cri_client.pods import guaranteed
from tests.browser.chromium import Chromium, Page
from tests.browser.pictures import MANIFESTS
from tests.browser.scene import GIB, MACHINE, Served, busy_node, replicas, served, with_devices
from tests.browser.test_plan import ask

SEARCH = replicas("search", 3, guaranteed("index", 4000, memory_bytes=4 * GIB), namespace="shop")


@pytest.fixture(scope="module")
async def busy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    directory = tmp_path_factory.mktemp("busy")
    async with served(directory, MACHINE, with_devices(directory)) as found:
        for spec in busy_node():
            await found.kubelet.run_pod(spec)
        yield found


async def opened(browser: Chromium, url: str) -> Page:
    page = await browser.new_page()
    await page.open(url)
    await page.shows("document.body?.dataset.drawn")
    return page


async def test_who_would_move_moves_and_is_news(browser: Chromium, busy: Served) -> None:
    page = await opened(browser, busy.url)
    assert await ask(page, MANIFESTS) == "3 of 4 containers would be placed, 1 refused; nothing was changed"
    moves = "[...document.querySelectorAll('#landings p')].map(e => e.innerText).filter(e => e.startsWith('moves '))"
    (move,) = [str(each) for each in await page.all(moves)]
    moved = move.removeprefix("moves ").partition(":")[0]
    for spec in SEARCH:
        await busy.kubelet.run_pod(spec)
    room = "[...document.querySelectorAll('#news li')].filter(e => e.innerText.includes('CPUs were left beside'))"
    await page.shows(f"{room}.length")
    assert await page.all(f"{room}.map(e => e.querySelector('button').innerText)") == [moved]
    later = await opened(browser, busy.url)  # which finds it there
    await later.shows(f"{room}.length")
    assert await later.all(f"{room}.map(e => e.querySelector('button').innerText)") == [moved]
    for each in (page, later):
        assert each.problems == []
        await each.close()


async def test_memory_and_pools_of_a_node_are_told_in_words(browser: Chromium, busy: Served) -> None:
    page = await opened(browser, busy.url)
    assert await page.number("document.querySelectorAll('#map .node').length") == 4
    assert "isolated" in await page.text("#map .summary")
    assert "GiB of 32 GiB" in await page.text("#map .amount")
    assert "isolated, free" in await page.text("#legend")
    await page.close()
