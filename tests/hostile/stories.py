"""How a story says where it is played, beside both relays: ``@ON_CONTAINERD_TOO`` or, by default, not there."""

from typing import Final

import pytest

SCRIPTED: Final = "scripted"
CONTAINERD: Final = "containerd"
# A story that does not script the runtime; its second half is run by the stage ``hostile`` of ``make test``, as root.
ON_CONTAINERD_TOO = pytest.mark.parametrize(
    "runtime", [SCRIPTED, pytest.param(CONTAINERD, marks=pytest.mark.containerd)]
)
