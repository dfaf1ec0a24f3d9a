"""The everyday questions of docs/questions.md, asked on the page of a node with the same pods, by pointer and keys."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.browser.chromium import Chromium, Page
from tests.browser.scene import Served, served
from tests.browser.test_plan import ask
from tests.terminal.node import FILES, MACHINE, run_pods

CARD = "document.querySelector('#card').innerText"
LIT = "[...document.querySelectorAll('#map .cpu.lit')].map(e => Number(e.dataset.cpu))"
NAMES = "[...document.querySelectorAll('#rows .name')].map(e => e.innerText)"
NEWS = "[...document.querySelectorAll('#news li')].map(e => e.innerText)"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "node.yaml"
    path.write_text((FILES / "node.yaml").read_text())
    return path


@pytest.fixture(scope="module")
async def shop(tmp_path_factory: pytest.TempPathFactory, config: Path) -> AsyncIterator[Served]:
    options = ("--config", str(config), "--node-name", "worker-1")
    async with served(tmp_path_factory.mktemp("shop"), MACHINE, options) as found:
        await run_pods(found.kubelet)
        yield found


@pytest.fixture
async def page(browser: Chromium, shop: Served) -> AsyncIterator[Page]:
    """The page with its news, of which a refusal is all that shows at first; at the end its console must be empty."""
    found = await browser.new_page()
    await found.open(shop.url)
    await found.shows("document.body?.dataset.drawn && document.querySelector('#news li button')")
    yield found
    assert found.problems == []
    await found.close()


async def filtered(page: Page, words: str) -> None:
    await page.press("/")
    await page.type(words)


async def owned_by(shop: Served, pod: str) -> list[int]:
    status = await shop.daemon.admin.status()
    return [*next(each for each in status.containers if each.pod == pod).exclusive]


async def test_where_each_is_and_what_is_free(page: Page, shop: Served) -> None:
    fits = (await shop.daemon.admin.status()).fits
    assert fits is not None
    assert f"{fits.cpus} CPU" in await page.text("#fits")
    names = await page.all(NAMES)
    assert {"shop/db-0/main", "shop/checkout/log", "kube-system/node-agent/agent"} <= set(map(str, names))


async def test_why_a_container_is_not_exclusive(page: Page) -> None:
    await filtered(page, "checkout/main")
    await page.point("#rows .name")
    why = "the QoS class of its pod is Burstable, not Guaranteed: log has no CPU limit and no memory limit"
    await page.shows(f"{CARD}.includes('not exclusive: {why}')")
    await page.point("#rows .name", click=True)
    await page.shows("document.querySelector('#whole h3')")
    assert f"{why} → set requests of CPU and memory equal to their limits" in await page.text("#whole")


async def test_who_is_on_a_cpu_that_is_owned(page: Page, shop: Served) -> None:
    cpus = await owned_by(shop, "db-0")
    await filtered(page, f"cpu:{cpus[0]}")
    await page.shows(f"{CARD}.includes('shop/db-0/main')")
    assert f"CPU {cpus[0]}: package 0, NUMA node 1, core of CPUs {cpus[0]}-{cpus[1]}" in await page.text("#card")
    assert await page.evaluate(LIT) == cpus
    await page.point(f'#map .cpu[data-cpu="{cpus[2]}"]')
    assert f"CPU {cpus[2]}: package 0" in await page.text("#card")


async def test_who_is_on_a_cpu_that_is_shared(page: Page, shop: Served) -> None:
    status = await shop.daemon.admin.status()
    (log,) = [each for each in status.containers if str(each) == "shop/checkout/log"]
    assert log.cpus is not None
    cpu = max(log.cpus)
    await filtered(page, f"cpu:{cpu}")
    card = await page.text("#card")
    there = sorted(str(each) for each in status.containers if each.cpus is not None and cpu in each.cpus)
    assert f"{len(there)} containers may run on it" in card
    assert all(name in card for name in there[:5])
    assert await page.evaluate(LIT) == [cpu]
    assert await page.number(f"{NAMES}.length") >= 2


async def test_a_cpu_that_is_not_here_is_told(page: Page) -> None:
    await filtered(page, "cpu:999")
    assert "no CPU 999 is online here" in await page.text("#card")


async def test_whether_a_deployment_fits_and_which_others_change(page: Page) -> None:
    assert "3 containers would be placed" in await ask(page, (FILES / "search.yaml").read_text())
    assert "1 container would be placed" in await ask(page, (FILES / "large.yaml").read_text())
    assert "narrows the shared CPUs of" in await page.text("#landings")


async def test_what_has_changed_since_yesterday(page: Page) -> None:
    assert not [each for each in await page.all(NEWS) if "db-0/main" in str(each)]
    await page.point("#starts", click=True)
    await page.shows("document.querySelectorAll('#news li').length > 9")
    news = [str(each) for each in await page.all(NEWS)]
    assert [each for each in news if "shop/db-0/main placed in NUMA node #" in each.replace("\n", " ")]
    assert [each for each in news if "web-3/server" in each and "ended: stopped" in each]
    await page.point("#starts", click=True)
    assert not [each for each in await page.all(NEWS) if "db-0/main" in str(each)]


async def test_which_are_not_as_wished_with_what_was_refused(page: Page) -> None:
    assert str((await page.all(NAMES))[0]) == "shop/report/main"
    await page.point("#problems", click=True)
    assert await page.all(NAMES) == ["shop/report/main", "shop/cache/main"]
    assert await page.text("#count") == "2 of 9 containers and 1 refused"
    assert await page.evaluate("document.querySelector('#rows tr').innerText.match(/refused/g).length") == 2


@pytest.mark.parametrize("selector", ["#rows .name", "#news [data-kind=refusal] button"])
async def test_why_a_pod_was_refused_and_what_would_help(page: Page, selector: str) -> None:
    await page.point(selector, click=True)
    await page.shows("document.querySelector('#whole h3')")
    whole = await page.text("#whole")
    assert whole.startswith("shop/report/main")
    assert "holds nothing now" in whole
    assert whole.count("wanted 24 exclusive CPUs") == 1
    assert "it would be placed in" in whole.partition("what would help")[2]


async def test_a_name_in_the_news_opens_what_is_there_and_says_what_is_gone(page: Page) -> None:
    await page.point("#starts", click=True)
    for pod, words in (("db-0", "pools, best first"), ("web-3", "knows nothing of it any more")):
        entry = f"[...document.querySelectorAll('#news li button')].find(e => e.innerText.includes('{pod}'))"
        await page.shows(entry)
        await page.evaluate(f"{entry}.focus()")
        await page.press("Enter")
        await page.shows(f"document.querySelector('#whole').innerText.includes('{words}')")
        await page.press("Escape")
    assert ["status of 404" in each for each in page.problems] == [True]  # that one is not known any more
    page.problems.clear()


async def test_which_configuration_is_live(page: Page, config: Path) -> None:
    first = hashlib.sha256(config.read_bytes()).hexdigest()[:12]
    assert f"configuration {first} of {config}, in force since" in await page.text("#configuration")
    assert "no reload since the start" in await page.text("#configuration")
    config.write_text("reservedResources: {cpu: many}\n")
    await page.shows("document.querySelector('#configuration').innerText.includes(': rejected')")
    assert first in await page.text("#configuration")
    assert "rejected" in await page.text("#warnings")
    config.write_text(f"# as before\n{(FILES / 'node.yaml').read_text()}")
    digest = hashlib.sha256(config.read_bytes()).hexdigest()[:12]
    await page.shows(f"document.querySelector('#configuration').innerText.includes('configuration {digest}')")
    assert "rejected" not in await page.text("#configuration")


async def test_times_of_another_day_are_told_where_the_browser_is(page: Page) -> None:
    await page.call("Emulation.setTimezoneOverride", timezoneId="Pacific/Auckland")  # 13 hours ahead in January
    told = "import('/page/words.js').then(words => words.clock(Date.UTC(2026, 0, 2, 20) / 1000))"
    assert await page.evaluate(told) == "2026-01-03 09:00:00"
