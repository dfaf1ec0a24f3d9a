from xml.etree import ElementTree

from tests.terminal.picture import CHAR_WIDTH, MARGIN, picture

SPACE = "{http://www.w3.org/2000/svg}"


def texts(printed: str) -> list[ElementTree.Element]:
    """What is drawn below the prompt."""
    root = ElementTree.fromstring(picture("status", printed, columns=40))
    return root.findall(f"{SPACE}text")[2:]


def test_a_word_stands_in_its_column_whatever_the_font() -> None:
    first, second = texts("ab   cd")
    assert (first.text, second.text) == ("ab", "cd")
    assert float(second.attrib["x"]) == MARGIN + 5 * CHAR_WIDTH
    assert float(second.attrib["textLength"]) == 2 * CHAR_WIDTH


def test_styles_are_colours_and_foreign_words_are_text() -> None:
    plain, green = texts("<b> &\x1b[32mweb\x1b[0m")
    assert plain.text == "<b> &"
    assert green.attrib["fill"] != plain.attrib["fill"]
    assert float(green.attrib["x"]) == MARGIN + 5 * CHAR_WIDTH
