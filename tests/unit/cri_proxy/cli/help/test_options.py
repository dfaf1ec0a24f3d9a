import pytest

from cri_proxy.cli.help.options import CommandOption, Takes, options_of


def of(name: str, option: str) -> CommandOption:
    return next(each for each in options_of(name) if option in each.names or (not option and not each.names))


@pytest.mark.parametrize(
    ("name", "option", "takes", "words"),
    [
        ("status", "--problems", Takes.NOTHING, ()),
        ("status", "--sort", Takes.WORDS, ("name", "cpus", "memory", "kind")),
        ("run", "--relay", Takes.WORDS, ("splice", "grpc")),
        ("run", "--topology-aware-pin-cpu", Takes.WORDS, ("true", "false")),
        ("simulate", "--html", Takes.FILES, ()),
        ("simulate", "", Takes.FILES, ()),
        ("explain", "", Takes.CONTAINERS, ()),
        ("status", "--admin", Takes.TEXT, ()),
        ("status", "--pod", Takes.TEXT, ()),
        ("gpu score", "--request", Takes.TEXT, ()),
    ],
)
def test_what_an_option_takes_follows_from_its_parser(
    name: str, option: str, takes: Takes, words: tuple[str, ...]
) -> None:
    found = of(name, option)
    assert (found.takes, found.words) == (takes, words)


def test_an_option_has_the_text_of_the_help() -> None:
    assert of("status", "-o").text == "text for people (default), or data"
    assert of("status", "-n").names == ("-n", "--namespace")
    assert of("fit", "").value == "FILE [FILE ...]"
    assert "%" not in "".join(option.text for option in options_of("run"))
