"""What must not stand in any file: the paths of one machine, the addresses of one registry, the marks of a merge."""

import re

import pytest

from tests.house.tree import files, shown

# A whole word before the slash would make it somebody else's path: var/work/ is no matter.
MACHINE_PATH = re.compile(r"(?<![A-Za-z0-9_.])/(?:work|farm|home/[a-z]+)/")
REGISTRY = re.compile(r"index[-]url|extra[-]index|find[-]links|trusted[-]host|GOPROXY[=]|pypi[.]org/simple|[.]npmjs")
MERGE_MARK = re.compile(r"^(?:<{7} |={7}$|>{7} )", re.MULTILINE)


def texts() -> dict[str, str]:
    """Every file that is text, by its path. A file that is not is a captured machine or a picture."""
    found = {}
    for path in files():
        raw = path.read_bytes()
        if b"\0" not in raw:
            found[shown(path)] = raw.decode()
    return found


@pytest.mark.parametrize("forbidden", [MACHINE_PATH, REGISTRY, MERGE_MARK], ids=["machine", "registry", "merge"])
def test_no_file_tells_where_it_was_made(forbidden: re.Pattern[str]) -> None:
    hits = {name: forbidden.search(text) for name, text in texts().items()}
    assert {name: hit.group() for name, hit in hits.items() if hit} == {}


def test_a_machine_path_is_seen_wherever_it_begins() -> None:
    assert MACHINE_PATH.search('open("/' + 'work/x")')
    assert not MACHINE_PATH.search("/var/work/x")


def test_pinned_packages_all_carry_hashes() -> None:
    pinned = [t for name, t in texts().items() if re.fullmatch(r"packaging/requirements/\w+\.txt", name)]
    assert len(pinned) == 2
    for text in pinned:
        blocks = re.split(r"\n(?=[a-z])", text.replace("\\\n", ""))[1:]
        assert blocks
        assert [b for b in blocks if "==" not in b or "--hash=sha256:" not in b] == []
