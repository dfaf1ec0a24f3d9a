from tests.testbed.errors import TryoutError


def test_the_remedy_stands_on_a_line_of_its_own() -> None:
    assert str(TryoutError("containerd", "not installed", "apt-get install it")) == (
        "containerd: not installed\napt-get install it"
    )


def test_without_a_remedy_there_is_one_line() -> None:
    assert str(TryoutError("containerd", "ended")) == "containerd: ended"
