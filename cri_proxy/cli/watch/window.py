"""The screen of ``status --watch`` on a terminal: what it shows, and what a key makes of it. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from cri_proxy.cli.render.columns import paint
from cri_proxy.cli.render.pool_tree import SORTS, TreeLine
from cri_proxy.cli.render.status_filter import StatusFilter

MARKED_SECONDS: Final = 60.0
"""How long a container is marked after it has changed."""
HELP: Final = "q quit  arrows, PgUp, PgDn scroll  / filter  f fold  s sort  p problems  e explain"
_PAGE: Final = 10  # containers
_ANY: Final = StatusFilter()


@dataclass(frozen=True, slots=True)
class Screen:
    """The content of a terminal: filter and shape of the tree, the line at the top, the container under the cursor.

    ``typed`` is a filter that is being typed, None = none is. ``page`` are lines shown instead, as of ``explain``,
    ``asks_about`` is the container whose page is wanted. ``changed_at`` are containers with the time of their change.
    """

    wanted: StatusFilter = _ANY
    is_folded: bool = True
    sort: str = "name"
    top: int = 0
    cursor: int = -1
    typed: str | None = None
    page: tuple[str, ...] = ()
    asks_about: str = ""
    is_over: bool = False
    changed_at: Mapping[str, float] = field(default_factory=dict)

    def marked(self, now_seconds: float) -> frozenset[str]:
        """Return the containers that have changed lately."""
        return frozenset(name for name, at in self.changed_at.items() if now_seconds - at < MARKED_SECONDS)

    def with_changed(self, names: Iterable[str], at_seconds: float) -> Self:
        """Return the screen that marks these containers too."""
        return replace(self, changed_at={**self.changed_at, **dict.fromkeys(filter(None, names), at_seconds)})


_MOVES: Final[Mapping[str, int]] = {
    "up": -1,
    "k": -1,
    "down": 1,
    "j": 1,
    "page up": -_PAGE,
    "page down": _PAGE,
    " ": _PAGE,
}
_COMMANDS: Final[Mapping[str, Callable[[Screen], Screen]]] = {
    "q": lambda screen: replace(screen, is_over=True),
    "f": lambda screen: replace(screen, is_folded=not screen.is_folded, cursor=-1),
    "s": lambda screen: replace(screen, sort=_next_sort(screen.sort)),
    "p": lambda screen: replace(screen, wanted=replace(screen.wanted, problems=not screen.wanted.problems), cursor=-1),
    "/": lambda screen: replace(screen, typed=screen.wanted.pod.strip("*")),
    "escape": lambda screen: replace(screen, wanted=_ANY, cursor=-1),
}


def _next_sort(sort: str) -> str:
    sorts = list(SORTS)
    return sorts[(sorts.index(sort) + 1) % len(sorts)]


def names_in(lines: Sequence[TreeLine]) -> list[str]:
    """Return the containers that these lines are about, each once."""
    return list(dict.fromkeys(line.container for line in lines if line.container))


def pressed(screen: Screen, key: str, containers: Sequence[str], height: int) -> Screen:
    """Return the screen after a key, by its name or character; ``containers`` are those that are shown."""
    if screen.typed is not None:
        return _typing(screen, screen.typed, key)
    if screen.page:
        return _paging(screen, key, height)
    if key in _MOVES:
        return replace(screen, cursor=max(-1, min(len(containers) - 1, screen.cursor + _MOVES[key])))
    if key in ("e", "enter") and 0 <= screen.cursor < len(containers):
        return replace(screen, asks_about=containers[screen.cursor])
    return _COMMANDS[key](screen) if key in _COMMANDS else screen


def _typing(screen: Screen, typed: str, key: str) -> Screen:
    match key:
        case "enter":
            wanted = replace(screen.wanted, pod=f"*{typed}*" if typed else "")
            return replace(screen, wanted=wanted, typed=None, cursor=-1)
        case "escape":
            return replace(screen, typed=None)
        case "delete":
            return replace(screen, typed=typed[:-1])
    return replace(screen, typed=typed + key) if len(key) == 1 and key.isprintable() else screen


def _paging(screen: Screen, key: str, height: int) -> Screen:
    """Scroll the page; any other key closes it."""
    steps = {"up": -1, "down": 1, "page up": 2 - height, "page down": height - 2}
    if key not in steps:
        return replace(screen, page=(), top=0)
    most = max(0, len(screen.page) - height + 1)
    return replace(screen, top=max(0, min(most, screen.top + steps[key])))


def drawn_lines(screen: Screen, lines: Sequence[TreeLine], height: int, *, colours: bool) -> tuple[list[str], Screen]:
    """Return the lines of the window, the last one about keys, and the screen scrolled to the cursor."""
    room = height - 1
    if screen.page:
        texts = list(screen.page[screen.top : screen.top + room])
        return [*texts, *[""] * (room - len(texts)), "up and down scroll  any other key: back"], screen
    names = names_in(lines)
    chosen = names[screen.cursor] if 0 <= screen.cursor < len(names) else ""
    at = next((i for i, line in enumerate(lines) if chosen and line.container == chosen), 0)
    top = max(0, min(screen.top, at), at - room + 1)
    texts = [
        paint(line.text, "reverse", colours=colours) if chosen and line.container == chosen else line.text
        for line in lines[top : top + room]
    ]
    bottom = bottom_line(screen, len(lines), top, room)
    return [*texts, *[""] * (room - len(texts)), bottom], replace(screen, top=top)


def bottom_line(screen: Screen, count: int, top: int, room: int) -> str:
    """Return the keys, or the filter that is typed, and how much is above and below the window."""
    if screen.typed is not None:
        return f"filter by pod or workload: {screen.typed}_"
    beyond = f"{top + 1}-{min(count, top + room)} of {count}  " if count > room else ""
    active = f"[{screen.wanted}]  " if screen.wanted != _ANY else ""
    return f"{beyond}{active}sort {screen.sort}  {HELP}"
