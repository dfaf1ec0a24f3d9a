"""The name of a container that people use."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContainerName:
    """A container by its pod's namespace, its pod and its own name; '' where one is not known.

    >>> str(ContainerName("shop", "web-0", "nginx"))
    'shop/web-0/nginx'
    """

    namespace: str
    pod: str
    name: str

    def __str__(self) -> str:
        return "/".join(filter(None, (self.namespace, self.pod, self.name)))
