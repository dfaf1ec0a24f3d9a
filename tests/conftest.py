"""How hard the properties are tried: a few examples by default, many with HYPOTHESIS_PROFILE=ci.

The same examples in every run: a run that fails can be run again. Fresh ones are what ``tests.property.soak`` is for.
No example has a deadline, in whichever directory: how long one takes is told by the machine's other work.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "default", max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", parent=settings.get_profile("default"), max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
