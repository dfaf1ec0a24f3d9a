import xml.etree.ElementTree as ET

from hypothesis import given, settings

from sysfs.model import Machine
from sysfs.show.picture import CPU_FILL, EFFICIENT_FILL, ISOLATED_FILL, MEMORY_FILL, picture
from tests.fakes.machines import machines, small_machine

SVG = "{http://www.w3.org/2000/svg}"


def drawn(machine: Machine) -> ET.Element:
    return ET.fromstring(picture(machine))


def fills(machine: Machine) -> list[str]:
    return [rect.get("fill", "") for rect in drawn(machine).iter(f"{SVG}rect") if rect.get("width") == "29"]


@settings(max_examples=20, deadline=None)
@given(machines(max_cpus=48))
def test_every_cpu_has_a_square_and_all_boxes_lie_in_the_picture(machine: Machine) -> None:
    root = drawn(machine)
    colours = {CPU_FILL, EFFICIENT_FILL, ISOLATED_FILL}
    squares = [r for r in root.iter(f"{SVG}rect") if r.get("fill") in colours and not r.get("stroke")]
    assert len(squares) == len(machine.cpus)
    assert all(right <= int(root.get("width", 0)) for right in rights(root, 0))


def rights(element: ET.Element, x: int) -> list[int]:
    """The right edges of all boxes in an element that stands at x."""
    place = element.get("transform", "translate(0,0)")
    x += int(place.removeprefix("translate(").partition(",")[0])
    own = [x + int(element.get("x", 0)) + int(element.get("width", 0))] if element.tag == f"{SVG}rect" else []
    return own + [right for child in element for right in rights(child, x)]


def test_isolated_and_efficiency_cpus_and_far_memory_have_colours_of_their_own() -> None:
    machine = small_machine(isolated="3", efficiency="4-5", memory_nodes=[{"memory": "1Gi", "near": {0: 17}}])
    assert (fills(machine).count(ISOLATED_FILL), fills(machine).count(EFFICIENT_FILL)) == (1, 2)
    assert MEMORY_FILL in picture(machine)


def test_names_and_facts_are_written_out() -> None:
    words = [text.text for text in drawn(small_machine(offline="7")).iter(f"{SVG}text")]
    assert "package 0 = NUMA node 0 = L3 #0" in words
    assert "2 GiB DRAM" in words
    assert "offline CPUs: 7" in words
