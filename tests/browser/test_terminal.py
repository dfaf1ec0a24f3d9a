from tests.browser.terminal import as_html


def test_styles_of_a_terminal_become_those_of_a_page_and_text_stays_text() -> None:
    shown = as_html("a <b> \x1b[32mgreen\x1b[0m \x1b[31mred")
    assert shown.partition(">")[2] == (
        'a &lt;b&gt; <span style="color:#6fd39a">green</span> <span style="color:#ff8d80">red</span></pre>'
    )
