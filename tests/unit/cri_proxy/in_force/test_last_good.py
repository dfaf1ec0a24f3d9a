from pathlib import Path

import pytest

from cri_proxy.errors import StoreError
from cri_proxy.in_force.last_good import FILE, KeptTexts, find_costs, save_costs

HERE = Path("/etc/cri-proxy/costs.d")
KEPT = KeptTexts(HERE, (("a.yaml", "a.com/x/x0:\n"), ("b.yaml", "b.com/é/y0:\n")))


def test_what_is_saved_is_found(tmp_path: Path) -> None:
    save_costs(tmp_path / "state", KEPT)
    assert find_costs(tmp_path / "state", HERE) == KEPT
    assert (tmp_path / "state" / FILE).stat().st_mode & 0o777 == 0o600


def test_what_belongs_to_another_directory_is_not_found(tmp_path: Path) -> None:
    save_costs(tmp_path, KEPT)
    assert find_costs(tmp_path, Path("/elsewhere")) == KeptTexts(Path("/elsewhere"))


def test_without_files_nothing_is_written(tmp_path: Path) -> None:
    save_costs(tmp_path / "state", KeptTexts(HERE))
    assert not (tmp_path / "state").exists()
    assert find_costs(tmp_path / "state", HERE) == KeptTexts(HERE)


def test_that_the_last_file_went_is_written(tmp_path: Path) -> None:
    save_costs(tmp_path, KEPT)
    save_costs(tmp_path, KeptTexts(HERE))
    assert find_costs(tmp_path, HERE) == KeptTexts(HERE)


def test_what_is_there_already_is_not_written_again(tmp_path: Path) -> None:
    save_costs(tmp_path, KEPT)
    inode = (tmp_path / FILE).stat().st_ino
    save_costs(tmp_path, KEPT)
    assert (tmp_path / FILE).stat().st_ino == inode


def test_one_that_cannot_be_used_is_replaced(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    (tmp_path / FILE).chmod(0o600)
    save_costs(tmp_path, KEPT)
    assert find_costs(tmp_path, HERE) == KEPT


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not as this version"),
        ('{"version": 2, "texts": {}}', "not as this version"),
        ('{"version": 1, "texts": {"a": 1}}', "not as this version"),
        ('{"version": 1, "texts": []}', "not as this version"),
    ],
)
def test_what_cri_proxy_does_not_write_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / FILE).write_text(text)
    (tmp_path / FILE).chmod(0o600)
    with pytest.raises(StoreError, match=problem):
        find_costs(tmp_path, HERE)


def test_one_that_others_may_write_is_refused(tmp_path: Path) -> None:
    save_costs(tmp_path, KEPT)
    (tmp_path / FILE).chmod(0o666)
    with pytest.raises(StoreError, match="chmod go-w"):
        find_costs(tmp_path, HERE)


def test_a_state_directory_that_others_may_write_to_is_not_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(StoreError, match="chmod go-w"):
        save_costs(tmp_path, KEPT)
