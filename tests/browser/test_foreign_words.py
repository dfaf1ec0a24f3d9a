"""Whatever pods are called and say, it is text on the page; and what the page may do is little."""

import http.client
import json
from urllib.parse import urlsplit

import pytest

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.http.server import MAX_STREAMS
from tests.browser.chromium import Chromium, Page
from tests.browser.scene import GIB, Served

NAMES = (
    "<img src=x onerror=alert(1)>",
    "\"'><script>alert(1)</script>",
    "javascript:alert(1)",
    "n" * 253,
    "\u202egnp.exe",
    "</textarea><svg/onload=alert(1)>",
)


@pytest.fixture(scope="module", autouse=True)
async def pods(node: Served) -> None:
    for name in NAMES:
        labels = (("pod-template-hash", name),)
        annotations = (("cri-proxy.io/affinity", name),)
        spec = PodSpec(name, (ContainerSpec(name, 10),), name, annotations, labels)
        await node.kubelet.run_pod(spec)
    await node.kubelet.run_pod(PodSpec("<b>own</b>", (guaranteed("<i>c", 1000, memory_bytes=GIB),), '"><u>'))


async def test_names_are_text_wherever_they_stand(page: Page) -> None:
    shown = await page.text("#rows")
    for name in NAMES[:4]:
        assert name in shown
    assert "\\u202egnp.exe" in shown
    for selector in ("img", "script:not([src])", "svg", "u", "#rows i", "iframe", "[onerror]", "[onload]"):
        assert await page.number(f"document.querySelectorAll({json.dumps(selector)}).length") == 0
    assert await page.number("document.documentElement.scrollWidth") <= 1280


async def test_they_are_text_in_the_card_the_explanation_and_the_news(page: Page) -> None:
    count = int(await page.number("document.querySelectorAll('#rows .name').length"))
    for number in range(1, count + 1):
        await page.point(f"#rows tr:nth-child({number}) .name", click=True)
        await page.shows("document.querySelector('#whole h3')")
        await page.press("Escape")
        await page.shows("!document.querySelector('#whole').open")
    assert await page.number("document.querySelectorAll('#card img, #whole img, #whole b, #whole script').length") == 0
    await page.resize(320, 800)
    assert await page.number("document.documentElement.scrollWidth") <= 320


async def test_the_words_of_a_manifest_are_text(page: Page) -> None:
    await page.point("#tab-plan", click=True)
    limits = '{limits: {cpu: "1", memory: 1Gi}}'
    yaml = (
        f'kind: Pod\nmetadata: {{name: "<img src=x>"}}\nspec: {{containers: [{{name: "<b>", resources: {limits}}}]}}\n'
    )
    await page.evaluate(f"document.getElementById('yaml').value = {json.dumps(yaml)}")
    await page.point("#submit", click=True)
    await page.shows("document.querySelector('#landings li')")
    assert "<img src=x>/<b>" in await page.text("#landings")
    assert await page.number("document.querySelectorAll('#landings img').length") == 0


async def test_the_policy_keeps_text_from_becoming_markup_or_script(browser: Chromium, node: Served) -> None:
    """What a mistake of ours would do is refused by the browser: a page of its own, as its console is not empty."""
    page = await browser.new_page()
    await page.open(node.url)
    await page.shows("document.body?.dataset.drawn")
    for attempt in (
        "document.body.innerHTML = '<b>x</b>'",
        "new Function('return 1')()",
        "document.createElement('script').text = 'x'",
    ):
        tried = f"(() => {{ try {{ {attempt}; return 'done' }} catch {{ return 'refused' }} }})()"
        assert (await page.evaluate(tried), attempt) == ("refused", attempt)
    made = "const e = document.body.appendChild(document.createElement('p')); e.setAttribute('style', 'color: red');"
    assert await page.evaluate(f"(() => {{ {made} return getComputedStyle(e).color }})()") != "rgb(255, 0, 0)"
    elsewhere = "fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')"
    assert await page.evaluate(elsewhere) == "refused"
    assert any("Content Security Policy" in problem for problem in page.problems)
    await page.close()


async def test_all_that_is_loaded_comes_from_the_daemon(page: Page, node: Served) -> None:
    loaded = await page.evaluate("performance.getEntriesByType('resource').map(e => e.name)")
    assert isinstance(loaded, list)
    assert loaded
    assert [name for name in loaded if not str(name).startswith(node.url)] == []


async def test_a_page_of_another_site_reads_and_asks_nothing(browser: Chromium, node: Served) -> None:
    """It stands on another port, which is another origin."""
    page = await browser.new_page()
    await page.open("data:text/html,<title>other</title>")
    await page.shows("document.title == 'other'")
    for options in ("{}", "{mode: 'no-cors'}", "{method: 'POST', body: 'kind: Pod'}"):
        answer = f"fetch('{node.url}api/v1/status', {options}).then(r => r.text().then(t => t.length), () => 0)"
        assert await page.evaluate(answer) == 0
    opened = f"const e = new EventSource('{node.url}api/v1/events'); e.onerror = () => done('refused');"
    events = f"new Promise(done => {{ {opened} e.addEventListener('status', () => done('read')); }})"
    assert await page.evaluate(events) == "refused"
    await page.close()


async def test_a_page_beyond_the_bound_says_so_and_comes_when_another_has_left(page: Page, node: Served) -> None:
    place = urlsplit(node.url)
    others = []
    for _ in range(MAX_STREAMS - 1):
        connection = http.client.HTTPConnection(place.hostname or "", place.port)
        connection.request("GET", "/api/v1/events")
        others.append(connection.getresponse())
        assert others[-1].status == 200
    late = await page.browser.new_page()
    await late.open(node.url)
    await late.shows("document.querySelector('#live')?.dataset.state == 'away'")
    for answer in others:
        answer.close()
    await late.shows("document.querySelector('#live').dataset.state == 'live' && document.body.dataset.drawn")
    await late.close()
