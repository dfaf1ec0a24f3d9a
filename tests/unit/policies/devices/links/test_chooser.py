from policies.devices.links import LinkChooser
from tests.unit.policies.devices.links.machines import kep_690, of_nvlinks

NAMES = tuple(f"GPU-{letter}" for letter in "hgfedcba")  # GPU-h is number 0
GPUS = {name: i for i, name in enumerate(NAMES)}


def test_devices_are_chosen_by_their_numbers_whatever_they_are_called() -> None:
    chooser = LinkChooser(kep_690(), GPUS)
    assert chooser.choose(NAMES, (), 2) == ("GPU-h", "GPU-e")
    assert chooser.choose(tuple(reversed(NAMES)), (), 2) == ("GPU-h", "GPU-e")
    assert chooser.choose(NAMES, ("GPU-g",), 2) == ("GPU-g", "GPU-f")


def test_there_may_be_no_set() -> None:
    chooser = LinkChooser(kep_690(), GPUS)
    assert chooser.choose(NAMES, (), 9) == ()
    assert chooser.choose(NAMES[:2], NAMES[2:3], 2) == ()
    assert chooser.choose((), (), 1) == ()


def test_a_device_without_a_number_comes_last() -> None:
    chooser = LinkChooser(kep_690(), GPUS)
    assert chooser.choose(("new", "GPU-h", "GPU-e"), (), 2) == ("GPU-h", "GPU-e")
    assert chooser.choose(("new", "GPU-h", "GPU-e"), ("new",), 3) == ("GPU-h", "GPU-e", "new")


def test_parts_of_one_gpu_have_no_preferred_set() -> None:
    assert LinkChooser(kep_690(), {"a": 0, "b": 0, "c": 1}).choose(("a", "b", "c"), (), 2) == ()


def test_one_device_breaks_no_linked_pair() -> None:
    """Peer defect: a request of one takes the first GPU, here half of the only linked pair."""
    matrix = of_nvlinks([[0, 4, 0], [4, 0, 0], [0, 0, 0]])
    assert LinkChooser(matrix, {"a": 0, "b": 1, "c": 2}).choose(("a", "b", "c"), (), 1) == ("c",)


def test_devices_without_numbers_follow_in_their_order() -> None:
    chooser = LinkChooser(kep_690(), GPUS)
    everything = ("new1", *NAMES, "new0", "new2")
    assert chooser.choose(everything, everything, 11) == (*NAMES, "new1", "new0", "new2")
    assert chooser.choose(everything, ("new0",), 9) == (*NAMES, "new0")
    assert chooser.choose(everything, (), 10) == (*NAMES, "new1", "new0")


def test_without_any_matrix_the_first_devices_are_chosen() -> None:
    assert LinkChooser(of_nvlinks([]), {}).choose(("b", "a", "c"), (), 2) == ("b", "a")
    assert LinkChooser(of_nvlinks([]), {"a": 0}).choose(("b", "a", "c"), ("a",), 2) == ("b", "a")
