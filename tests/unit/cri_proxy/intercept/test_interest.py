"""Which methods the daemon looks at."""

import pytest

from cri_proxy.cri.methods import BY_PATH
from cri_proxy.intercept.interest import CREATE, OLD_RUNTIME, RUNTIME, START, UPDATE, interest_of
from cri_proxy.relay.calls import Interest


@pytest.mark.parametrize("method", [CREATE, START, UPDATE, RUNTIME + "StopPodSandbox"])
def test_what_changes_who_holds_what_is_held(method: str) -> None:
    assert interest_of(method) is Interest.HOLD


@pytest.mark.parametrize(
    "method", [RUNTIME + "Version", RUNTIME + "ExecSync", "/runtime.v1.ImageService/PullImage", "/x"]
)
def test_the_rest_passes(method: str) -> None:
    assert interest_of(method) is Interest.PASS


def test_the_old_interface_is_refused_for_it_would_be_served_unpinned() -> None:
    assert interest_of(OLD_RUNTIME + "CreateContainer") is Interest.REFUSE


def test_every_method_that_is_held_exists() -> None:
    held = {path for path in BY_PATH if interest_of(path) is Interest.HOLD}
    assert len(held) == 10
