import pytest

from sysfs.show.pci_class import class_words


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0x010802, "NVMe controller"),
        (0x018000, "storage controller"),
        (0x020000, "Ethernet controller"),
        (0x030000, "VGA controller"),
        (0x030200, "3D controller"),
        (0x038000, "display controller"),
        (0x050210, "CXL memory device"),
        (0x060400, "bridge"),
        (0x120000, "processing accelerator"),
        (0xFF0000, "unassigned class"),
    ],
)
def test_a_class_is_named_by_its_subclass_else_by_its_base(code: int, words: str) -> None:
    assert class_words(code) == words
