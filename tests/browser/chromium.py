"""A headless Chromium, driven by the DevTools protocol over a pair of pipes (``--remote-debugging-pipe``).

https://chromedevtools.github.io/devtools-protocol. Messages are JSON that ends in a zero byte; Chromium reads them from
descriptor 3 and writes to 4, so no port is open.
"""

import asyncio
import base64
import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from tests.testbed.errors import TryoutError
from tests.testbed.wait import until

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
REMEDY: Final = "apt-get install chromium"
ANSWER_SECONDS: Final = 60.0
SHOWN_SECONDS: Final = 30.0
_OPTIONS: Final = (
    *("--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--force-color-profile=srgb", "--font-render-hinting=none", "--hide-scrollbars"),
)
_KEYS: Final = {"Enter": ("\r", 13), "Escape": ("", 27), "Tab": ("", 9), "ArrowDown": ("", 40), "ArrowUp": ("", 38)}
_MORE_KEYS: Final = {"ArrowLeft": ("", 37), "ArrowRight": ("", 39), "End": ("", 35), "Home": ("", 36)}
Message = Mapping[str, object]


def program() -> str:
    """The path of the browser, '' where none is installed."""
    return next(filter(None, map(shutil.which, PROGRAMS)), "") or ""


@dataclass(eq=False)
class Page:
    """A tab. ``problems`` are what its console reported: errors, warnings, refused by the content policy."""

    browser: "Chromium"
    session: str
    target: str
    problems: list[str] = field(default_factory=list)

    async def call(self, method: str, **parameters: object) -> Message:
        """Call a method of the protocol for this tab."""
        return await self.browser.call(method, self.session, **parameters)

    async def close(self) -> None:
        """Close the tab."""
        await self.browser.call("Target.closeTarget", targetId=self.target)

    async def resize(self, width: int, height: int, *, is_dark: bool = False, scale: float = 1.0) -> None:
        """Give the window this size, and the system's colours."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
        await self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]
        await self.call("Emulation.setEmulatedMedia", features=scheme)

    async def open(self, url: str) -> None:
        """Go to this address."""
        await self.call("Page.navigate", url=url)

    async def evaluate(self, expression: str) -> object:
        """Return the value of a JavaScript expression, awaited. Raises TryoutError where it throws."""
        how = {"returnByValue": True, "awaitPromise": True, "allowUnsafeEvalBlockedByCSP": False}
        answer = await self.call("Runtime.evaluate", expression=expression, **how)
        if "exceptionDetails" in answer:
            raise TryoutError("evaluate", f"{expression}: {json.dumps(answer['exceptionDetails'])[:600]}")
        result = answer["result"]
        return result.get("value") if isinstance(result, dict) else None

    async def number(self, expression: str) -> float:
        """Return the value of an expression that is a number."""
        value = await self.evaluate(expression)
        assert isinstance(value, int | float), value
        return float(value)

    async def all(self, expression: str) -> list[object]:
        """Return the values of an expression that is a list."""
        values = await self.evaluate(expression)
        assert isinstance(values, list), values
        return values

    async def text(self, selector: str) -> str:
        """Return the text of the first element of this selector, '' where there is none."""
        return str(await self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    async def shows(self, expression: str) -> None:
        """Wait until this expression is true of the page. Raises TryoutError where it never is."""

        async def check() -> bool:
            return await self.evaluate(f"!!({expression})") is True

        await until(f"the page shows: {expression}", check, seconds=SHOWN_SECONDS)

    async def point(self, selector: str, *, click: bool = False) -> None:
        """Move the pointer to the middle of the first element of this selector; press it there."""
        at = await self._middle(selector)
        await self.call("Input.dispatchMouseEvent", type="mouseMoved", **at)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            await self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

    async def _middle(self, selector: str) -> dict[str, float]:
        script = f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: "nearest"}}); const r = e.getBoundingClientRect();
            return [r.x + r.width / 2, r.y + r.height / 2] }})()"""
        place = await self.evaluate(script)
        assert isinstance(place, list), selector
        return {"x": place[0], "y": place[1]}

    async def tap(self, selector: str) -> None:
        """Touch the middle of the first element of this selector with a finger."""
        at = await self._middle(selector)
        await self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[at])
        await self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    async def press(self, key: str) -> None:
        """Press a key by its name."""
        text, code = {**_KEYS, **_MORE_KEYS}.get(key, (key, ord(key[0])))
        names = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        await self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **names)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **names)

    async def type(self, text: str) -> None:
        """Type where the focus is."""
        await self.call("Input.insertText", text=text)

    async def picture(self, path: Path) -> None:
        """Write what is shown as a PNG."""
        answer = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(str(answer["data"])))

    def hear(self, method: str, told: Mapping[str, object]) -> None:
        """Keep what the console reports."""
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(told.get("exceptionDetails"))[:500])
        entry = told.get("entry")
        if method == "Log.entryAdded" and isinstance(entry, dict) and entry.get("level") in ("error", "warning"):
            self.problems.append(f"{entry.get('level')}: {entry.get('text')} {entry.get('url', '')}")
        if method == "Runtime.consoleAPICalled" and told.get("type") in ("error", "warning", "assert"):
            self.problems.append(json.dumps(told.get("args"))[:500])


class Chromium:
    """The browser while it runs: ``async with Chromium(directory)``; its profile is below the directory."""

    def __init__(self, directory: Path) -> None:
        """Start nothing yet."""
        self._directory = directory
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self._pages: dict[str, Page] = {}
        self._number = 0
        self._received = b""

    async def __aenter__(self) -> Self:
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        home = {**os.environ, "HOME": str(self._directory), "XDG_CONFIG_HOME": str(self._directory)}
        # The shell gives the pipes their numbers: in this process 3 and 4 may be anything.
        words = ("exec", program(), *_OPTIONS, f"--user-data-dir={self._directory}/profile", "about:blank")
        script = f"{' '.join(words)} 3<&{to_read} 4>&{to_write}"
        with (self._directory / "chromium.log").open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                "bash", "-c", script, pass_fds=(to_read, to_write), stdout=log, stderr=log, env=home
            )
        os.close(to_read)
        os.close(to_write)
        os.set_blocking(self._from, False)
        asyncio.get_running_loop().add_reader(self._from, self._read)
        return self

    async def __aexit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._from)
        with suppress(OSError):
            os.close(self._to)  # ends it
        with suppress(ProcessLookupError):
            try:
                async with asyncio.timeout(10):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        os.close(self._from)

    async def new_page(self, width: int = 1280, height: int = 800, *, is_dark: bool = False, scale: float = 1) -> Page:
        """Open an empty tab of this size."""
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        session = str(attached["sessionId"])
        page = self._pages[session] = Page(self, session, str(target["targetId"]))
        for domain in ("Page", "Runtime", "Log"):
            await page.call(f"{domain}.enable")
        await page.resize(width, height, is_dark=is_dark, scale=scale)
        return page

    async def call(self, method: str, session: str = "", **parameters: object) -> Message:
        """Call a method of the protocol. Raises TryoutError."""
        self._number += 1
        number = self._number
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        await asyncio.to_thread(_write_all, self._to, json.dumps(message).encode() + b"\0")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                found = await answer
        except TimeoutError:
            raise TryoutError("chromium", f"{method} was not answered", self._log()) from None
        finally:
            self._answers.pop(number, None)
        if "error" in found:
            raise TryoutError("chromium", f"{method}: {found['error']}")
        result = found["result"]
        assert isinstance(result, dict)
        return result

    def _log(self) -> str:
        return (self._directory / "chromium.log").read_text(errors="replace")[-2000:]

    def _read(self) -> None:
        try:
            chunk = os.read(self._from, 1 << 16)
        except BlockingIOError:
            return
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._from)
        *whole, self._received = (self._received + chunk).split(b"\0")
        for text in whole:
            self._take(json.loads(text))

    def _take(self, message: dict[str, object]) -> None:
        number = message.get("id")
        waiting = self._answers.get(number) if isinstance(number, int) else None
        if waiting is not None and not waiting.done():
            waiting.set_result(message)
        page, told = self._pages.get(str(message.get("sessionId"))), message.get("params")
        if page is not None and isinstance(told, dict):
            page.hear(str(message.get("method")), told)


def _write_all(descriptor: int, data: bytes, write: Callable[[int, bytes], int] = os.write) -> None:
    while data:
        data = data[write(descriptor, data) :]
