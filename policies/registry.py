"""The registry of policies: each one's name, class path (imported on demand), options model and reason codes.

An entry names its class instead of importing it: the configuration is read before the code that decides is loaded.
"""

from dataclasses import dataclass
from importlib import import_module

from policies.errors import UnknownPolicyError
from policies.options import PolicyOptions
from policies.policy import Policy
from policies.topology_aware import ReasonCode, TopologyAwareOptions


@dataclass(frozen=True, slots=True)
class Registered:
    """A policy: its name in the configuration, ``MODULE:CLASS``, the model of its options, and its reasons' codes."""

    name: str
    path: str
    options: type[PolicyOptions] = PolicyOptions
    reason_codes: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """The key of its options in the configuration.

        >>> Registered("topology-aware", "").group
        'topologyAware'
        """
        first, *rest = self.name.split("-")
        return first + "".join(map(str.capitalize, rest))

    def load(self) -> type[Policy]:
        """Import the class."""
        module, _, name = self.path.partition(":")
        found: object = getattr(import_module(module), name)
        if isinstance(found, type) and issubclass(found, Policy):
            return found
        raise TypeError(f"{self.path} is not a Policy")


POLICIES = (
    Registered("topology-aware", "policies.topology_aware.policy:TopologyAware", TopologyAwareOptions, (*ReasonCode,)),
    Registered("none", "policies.none:NonePolicy", reason_codes=("not-managed",)),
)
REASON_CODES = tuple(dict.fromkeys(code for policy in POLICIES for code in map(str, policy.reason_codes)))


def registered(name: str) -> Registered:
    """Return the policy of this name. Raises UnknownPolicyError."""
    found = next((policy for policy in POLICIES if policy.name == name), None)
    if found is None:
        raise UnknownPolicyError(name, tuple(policy.name for policy in POLICIES))
    return found
