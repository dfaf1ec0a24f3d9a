from pathlib import Path

import pytest

from cri_proxy.errors import StoreError
from cri_proxy.in_force.text_files import KeptTexts, texts_file

FILE = texts_file("texts.json")
KEPT = KeptTexts(Path("/etc/cri-proxy/costs.d"), (("a.yaml", "a.com/x/x0:\n"), ("b.yaml", "b.com/é/y0:\n")))


def test_texts_are_found_with_their_directory(tmp_path: Path) -> None:
    FILE.save(tmp_path / "state", KEPT)
    assert FILE.find(tmp_path / "state") == KEPT


@pytest.mark.parametrize("texts", ['{"a": 1}', "[]", "null"])
def test_what_is_no_text_is_refused(texts: str) -> None:
    with pytest.raises(StoreError, match="not as this version"):
        FILE.decode(f'{{"version": 1, "directory": "/d", "texts": {texts}}}'.encode(), "f")
