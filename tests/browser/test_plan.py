"""The second tab: pasted manifests are drawn where they would land, and nothing changes."""

import pytest

from cri_proxy.cri_client.pods import PodSpec, guaranteed
from tests.browser.chromium import Page
from tests.browser.scene import GIB, Served

POD = (
    "kind: Pod\nmetadata: {name: NAME}\nspec: {containers: [{name: c, resources: {limits: {cpu: CPU, memory: 1Gi}}}]}\n"
)
ANSWERED = "document.querySelector('#verdict').innerText.length > 1"
PLANNED = "[...document.querySelectorAll('#plan-map .cpu[data-kind=planned]')].map(e => Number(e.dataset.cpu))"


def pod(name: str, cpu: int) -> str:
    return POD.replace("NAME", name).replace("CPU", str(cpu))


async def ask(page: Page, text: str) -> str:
    """What is answered to this text, pasted."""
    await page.point("#tab-plan", click=True)
    await page.evaluate("document.getElementById('yaml').value = ''")
    await page.point("#yaml", click=True)
    await page.type(text)
    await page.point("#submit", click=True)
    await page.shows(f"{ANSWERED} && !document.querySelector('#submit').disabled")
    return await page.text("#verdict")


async def test_a_pasted_pod_is_drawn_where_it_would_land(page: Page, node: Served) -> None:
    assert await ask(page, pod("asked", 2)) == "1 container would be placed; nothing was changed"
    landing = await page.text("#landings li")
    assert landing.startswith("+\ndefault/asked/c") or "default/asked/c" in landing
    cpus = await page.evaluate(PLANNED)
    assert isinstance(cpus, list)
    assert len(cpus) == 2
    assert (await node.daemon.admin.status()).containers == ()
    await node.kubelet.run_pod(PodSpec("asked", (guaranteed("c", 2000, memory_bytes=GIB),)))
    (placed,) = (await node.daemon.admin.status()).containers
    assert [*placed.exclusive] == cpus


async def test_what_would_be_refused_is_told_with_the_reason(page: Page) -> None:
    text = f"{pod('first', 1)}---\n{pod('giant', 60)}"
    assert await ask(page, text) == "1 of 2 containers would be placed, 1 refused; nothing was changed"
    assert "would be refused" in await page.text("#landings li:nth-child(2)")


@pytest.mark.parametrize(("text", "problem"), [("kind: Pod\n\t- x\n", "the manifest:2"), ("a: b\n", "have no pods")])
async def test_what_cannot_be_read_is_told_with_its_line(page: Page, text: str, problem: str) -> None:
    assert problem in await ask(page, text)


async def test_pointing_at_an_answer_lights_its_cpus(page: Page) -> None:
    await ask(page, pod("other", 1))
    await page.point("#landings li")
    lit = "[...document.querySelectorAll('#plan-map .cpu.lit')].map(e => Number(e.dataset.cpu))"
    assert await page.evaluate(lit) == await page.evaluate(PLANNED) != []


async def test_the_tabs_are_changed_by_arrows(page: Page) -> None:
    await page.evaluate("document.querySelector('#tab-now').focus()")
    await page.press("ArrowRight")
    assert await page.evaluate("document.activeElement.id") == "tab-plan"
    assert await page.evaluate("document.querySelector('#panel-now').hidden") is True
    await page.press("ArrowLeft")
    assert await page.evaluate("document.querySelector('#panel-plan').hidden") is True
