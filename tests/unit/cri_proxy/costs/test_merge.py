from collections.abc import Mapping
from pathlib import Path

import pytest

from cri_proxy.costs import merge as module
from cri_proxy.costs.merge import merge
from cri_proxy.in_force.file_state import EMPTY, Judged, texts_in_force
from cri_proxy.in_force.report import FileState, JudgedFile
from cri_proxy.in_force.text_files import FoundFiles, TextFile
from policies.devices.costs import NO_DEVICES, Inventory, Missing, Normalize
from tests.fakes.secret_files import MARK, SECRETS

HERE = Path("/etc/cri-proxy/costs.d")
GPUS = "a.com/gpu/gpu0-1:\n  - 10:\n    - cpu/cpu0-3\n  - 30\n    - b.com/nic/nic0\n"
NICS = "b.com/nic/nic0: {5: [cpu/cpu0-3]}\n"


def directory(texts: Mapping[str, str]) -> FoundFiles:
    return FoundFiles(HERE, tuple(TextFile(name, texts[name]) for name in sorted(texts)))


def states(merged: Judged[Inventory]) -> dict[str, str]:
    return {file.name: file.state.value for file in merged.files}


def problem(merged: Judged[Inventory], name: str) -> JudgedFile:
    return next(file for file in merged.files if file.name == name)


def said(merged: Judged[Inventory]) -> dict[tuple[str, str], int]:
    """What the first member of each group says that the first member of another costs, unscaled."""
    table = merged.content.table
    return {
        (table.groups[g].members[0], table.groups[t].members[0]): cost
        for g, row in enumerate(table.costs)
        for t, cost in row.items()
    }


def test_files_are_joined_to_one_inventory() -> None:
    merged = merge(directory({"gpu.yaml": GPUS, "nic.json": '{"b.com/nic/nic0": {"5": ["cpu/cpu0-3"]}}'}), {})
    assert merged.content.devices == {
        "a.com/gpu": ("a.com/gpu/gpu0", "a.com/gpu/gpu1"),
        "b.com/nic": ("b.com/nic/nic0",),
    }
    assert said(merged)[("a.com/gpu/gpu0", "b.com/nic/nic0")] == 30
    assert states(merged) == {"gpu.yaml": "in_force", "nic.json": "in_force"}


def test_no_files_list_nothing() -> None:
    assert merge(directory({}), {}).content == NO_DEVICES


def test_lines_of_one_source_in_two_files_are_joined() -> None:
    merged = merge(directory({"a.yaml": GPUS, "b.yaml": "a.com/gpu/gpu0: {10: [cpu/cpu0], 15: [cpu/cpu4]}\n"}), {})
    assert said(merged)[("a.com/gpu/gpu0", "cpu/cpu4")] == 15
    assert states(merged) == {"a.yaml": "in_force", "b.yaml": "in_force"}


def test_a_device_of_another_file_is_there_only_while_that_file_lists_it() -> None:
    both, alone = merge(directory({"g.yaml": GPUS, "n.yaml": NICS}), {}), merge(directory({"g.yaml": GPUS}), {})
    assert "b.com/nic" in both.content.devices
    assert alone.content.devices == {"a.com/gpu": ("a.com/gpu/gpu0", "a.com/gpu/gpu1")}
    assert set(said(alone)) == {("a.com/gpu/gpu0", "cpu/cpu0")}


def test_a_device_without_costs_is_listed_as_a_source_or_as_present() -> None:
    merged = merge(directory({"a.yaml": "a.com/x/x0:\n", "b.yaml": "{costs: {}, present: [a.com/x/x1]}"}), {})
    assert merged.content.devices == {"a.com/x": ("a.com/x/x0", "a.com/x/x1")}


def test_costs_are_normalized_by_type_over_all_files_and_missing_ones_counted_as_told() -> None:
    merged = merge(directory({"g.yaml": GPUS, "n.yaml": NICS}), {}, Normalize.PER_TYPE_MAX, Missing.MIRROR)
    scale = merged.content.table.scale
    assert said(merged)[("a.com/gpu/gpu0", "b.com/nic/nic0")] == 100 * scale
    assert said(merged)[("b.com/nic/nic0", "cpu/cpu0")] == 100 * scale
    assert merged.content.missing is Missing.MIRROR


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (f"{GPUS}a: [", 6, "not YAML"),
        ("a.com/x/x0:\n- 10: []\n", 2, "no key of a cost file is understood"),
        (f"{GPUS}a.com/x/x0: {{10: []}}\n", 6, "no targets stand under this cost"),
        ("a.com/x/x0:\n  - -3: [cpu/cpu0]\na/b: {1: [a/c]}", 2, "a cost cannot be negative"),
        ("costs: {}\nrequest: {cpu: 1}\n", 2, "request: belongs to a file for cri-proxy select"),
        ("costs: {}\npresnt: []\n", 2, "did you mean present?"),
        (f"{GPUS}---\na.com/x/x1:\n", 7, "another document begins here"),
        (f"gpu0: {{1: [cpu/cpu0]}}\n{GPUS}", 1, "'gpu0': expected one name of the form TYPE/INSTANCE"),
        (" \n", 0, EMPTY),
        ("", 0, EMPTY),
    ],
)
def test_a_mistake_is_told_with_its_line_and_takes_no_other_file_down(text: str, line: int, words: str) -> None:
    merged = merge(directory({"a.yaml": text, "n.yaml": NICS}), {})
    bad = problem(merged, "a.yaml")
    assert (bad.state, bad.line) == (FileState.REJECTED, line)
    assert words in bad.problem
    assert merged.content == merge(directory({"n.yaml": NICS}), {}).content


def test_the_braces_say_that_a_file_lists_nothing() -> None:
    merged = merge(directory({"a.yaml": "{}", "b.yaml": "# later\n"}), {"a.yaml": GPUS})
    assert merged.content == NO_DEVICES
    assert states(merged) == {"a.yaml": "in_force", "b.yaml": "in_force"}


@pytest.mark.parametrize(
    "found", [TextFile("g.yaml", "a: ["), TextFile("g.yaml", "", "is not a regular file: remove it")]
)
def test_a_bad_file_keeps_its_last_good_content(found: TextFile) -> None:
    merged = merge(FoundFiles(HERE, (found, TextFile("n.yaml", NICS))), {"g.yaml": GPUS})
    assert merged.content == merge(directory({"g.yaml": GPUS, "n.yaml": NICS}), {}).content
    assert states(merged) == {"g.yaml": "kept", "n.yaml": "in_force"}


def test_a_removed_file_lists_nothing_more() -> None:
    assert merge(directory({"n.yaml": NICS}), {"g.yaml": GPUS, "n.yaml": NICS}).content.devices.keys() == {"b.com/nic"}


def test_while_the_directory_cannot_be_read_everything_stays() -> None:
    before = {"g.yaml": GPUS, "n.yaml": NICS}
    merged = merge(FoundFiles(HERE, (), "cannot be read: Permission denied"), before)
    assert merged.content == merge(directory(before), {}).content
    assert states(merged) == {"g.yaml": "kept", "n.yaml": "kept"}


def test_of_two_new_files_that_disagree_the_first_by_name_counts() -> None:
    merged = merge(directory({"a.yaml": NICS, "b.yaml": "b.com/nic/nic0:\n- 6: [cpu/cpu1]\n"}), {})
    assert states(merged) == {"a.yaml": "in_force", "b.yaml": "rejected"}
    bad = problem(merged, "b.yaml")
    assert bad.line == 2
    assert bad.problem == "b.com/nic/nic0: has cost 5 on line 1 of a.yaml to cpu/cpu1 and cost 6 here; keep one"


def test_the_file_that_brings_the_disagreement_is_at_fault_whatever_its_name() -> None:
    before = {"a.yaml": GPUS, "b.yaml": NICS}
    merged = merge(directory({"a.yaml": GPUS + "b.com/nic/nic0: {6: [cpu/cpu1]}\n", "b.yaml": NICS}), before)
    assert states(merged) == {"a.yaml": "kept", "b.yaml": "in_force"}
    assert "on line 1 of b.yaml" in problem(merged, "a.yaml").problem
    assert merged.content == merge(directory(before), {}).content


def test_a_new_file_gives_way_to_the_last_good_content_of_another() -> None:
    before = {"a.yaml": GPUS, "b.yaml": NICS}
    merged = merge(directory({"a.yaml": "b.com/nic/nic0: {6: [cpu/cpu1]}\n", "b.yaml": "x: ["}), before)
    assert states(merged) == {"a.yaml": "kept", "b.yaml": "kept"}
    assert merged.content == merge(directory(before), {}).content


def test_two_files_that_change_together_may_say_the_opposite_of_before() -> None:
    before = {"a.yaml": "a.com/x/x0: {1: [cpu/cpu0]}\n", "b.yaml": "a.com/x/x0: {1: [cpu/cpu0]}\n"}
    after = dict.fromkeys(before, "a.com/x/x0: {2: [cpu/cpu0]}\n")
    assert states(merge(directory(after), before)) == {"a.yaml": "in_force", "b.yaml": "in_force"}


def test_the_same_files_give_the_same_inventory_whatever_came_first() -> None:
    texts = {"a.yaml": GPUS, "b.yaml": NICS, "c.yaml": "a.com/gpu/gpu2: {3: [a.com/gpu/gpu0]}\n"}
    expected = merge(directory(texts), {}).content
    for name in texts:
        assert merge(directory(texts), {k: v for k, v in texts.items() if k != name}).content == expected


@pytest.mark.parametrize(
    ("bound", "most", "words"), [("MAX_NAMES", 9, "more than 9 names"), ("MAX_PAIRS", 2, "more than 2 pairs")]
)
def test_what_all_files_say_is_bounded(bound: str, most: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, bound, most)
    merged = merge(directory({"a.yaml": NICS, "b.yaml": "b.com/nic/nic1: {7: [cpu/cpu0-3, cpu/cpu8-9]}\n"}), {})
    assert states(merged) == {"a.yaml": "in_force", "b.yaml": "rejected"}
    assert words in problem(merged, "b.yaml").problem


def test_what_was_saved_by_another_version_and_fits_no_more_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NAMES", 9)
    texts = {"a.yaml": NICS, "b.yaml": "b.com/nic/nic1: {7: [cpu/cpu0-3, cpu/cpu8-9]}\n"}
    merged = merge(directory(texts), texts)
    assert states(merged) == {"a.yaml": "in_force", "b.yaml": "rejected"}


def test_the_texts_that_count_are_kept() -> None:
    found = directory({"a.yaml": GPUS, "b.yaml": "x: [", "c.yaml": "y: ["})
    merged = merge(found, {"b.yaml": NICS})
    assert texts_in_force(found, {"b.yaml": NICS}, merged.files) == {"a.yaml": GPUS, "b.yaml": NICS}


def test_the_texts_that_counted_are_kept_while_the_directory_cannot_be_read() -> None:
    found, kept = FoundFiles(HERE, (), "does not answer"), {"b.yaml": NICS}
    assert texts_in_force(found, kept, merge(found, kept).files) == kept


@pytest.mark.parametrize("name", SECRETS)
def test_of_a_file_without_costs_nothing_is_repeated(name: str) -> None:
    found = problem(merge(directory({"a.yaml": SECRETS[name]}), {}), "a.yaml")
    assert found.problem.startswith("no key of a cost file is understood")
    assert MARK not in found.problem
