"""What a command prints on a terminal, as a picture: run on a pseudo-terminal, its colours become those of a page."""

import asyncio
import html
import json
import os
import pty
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.browser.chromium import Chromium
from tests.testbed.daemon import program

COLUMNS: Final = 118
_STYLE: Final = re.compile("\x1b\\[([0-9;]*)m")
_CSS: Final = {
    "1": "font-weight:700;color:#fff",
    "2": "color:#8b97ad",
    "7": "background:#e4e9f2;color:#0d1119",
    "31": "color:#ff8d80",
    "32": "color:#6fd39a",
    "33": "color:#f2c063",
    "36": "color:#6fd0e0",
}
_PAGE: Final = """document.body.style.cssText = "margin:0;background:#0d1119";
document.body.innerHTML = TEXT; document.querySelector("pre").getBoundingClientRect().height"""
_PRE: Final = "padding:18px 22px;margin:0;width:max-content;color:#e4e9f2;font:14px/1.4 DejaVu Sans Mono,monospace"


def printed(command: Sequence[str]) -> str:
    """What ``cri-proxy`` prints with these words on a terminal of COLUMNS."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(COLUMNS=str(COLUMNS), TERM="xterm")
        os.execv(program()[0], (*program(), *command))
    chunks = []
    with suppress(OSError):  # EIO: its end
        while chunk := os.read(terminal, 1 << 16):
            chunks.append(chunk)
    os.close(terminal)
    os.waitpid(child, 0)
    return b"".join(chunks).decode().replace("\r\n", "\n")


def as_html(text: str) -> str:
    """The text with its styles as a ``pre`` element."""
    parts, is_open = [f'<pre style="{_PRE}">'], False
    for index, piece in enumerate(_STYLE.split(text)):
        if index % 2 == 0:
            parts.append(html.escape(piece))
            continue
        parts.append("</span>" if is_open else "")
        is_open = piece in _CSS
        parts.append(f'<span style="{_CSS[piece]}">' if is_open else "")
    return "".join([*parts, "</span>" if is_open else "", "</pre>"])


async def draw_output(browser: Chromium, title: str, command: Sequence[str], path: Path) -> None:
    """Write what the command prints as a PNG, below its ``title``."""
    text = await asyncio.to_thread(printed, command)
    lines = text.rstrip("\n").split("\n")
    shown = as_html("\n".join([f"$ cri-proxy {title}", *lines]))
    page = await browser.new_page(1060, 400)
    height = await page.number(_PAGE.replace("TEXT", json.dumps(shown)))
    await page.resize(1060, round(height))
    await page.picture(path)
    await page.close()
