"""Choose devices by the links between them, behind the interface ``policies.choose.Chooser``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from policies.devices.links.choice import GpuRequest, LinkOptions, allocate
from policies.devices.links.matrix import LinkMatrix, MatrixGpu


@dataclass(frozen=True, slots=True)
class LinkChooser:
    """Prefers the sets of a policy of links; ``gpus`` has the number in the matrix of each device.

    A device without a number counts as unlinked and comes last. Devices that are parts of one GPU are not told apart:
    with several of them there is no preferred set. A single GPU is by default the one whose links the others miss
    least, so that no linked pair is broken for it.
    """

    matrix: LinkMatrix
    gpus: Mapping[str, int]
    options: LinkOptions = field(default_factory=lambda: LinkOptions(spares_links=True))

    def choose(self, available: Sequence[str], included: Sequence[str], size: int) -> tuple[str, ...]:
        """Return the preferred set of this size, with all of ``included``; empty where there is none."""
        names = dict.fromkeys(available)
        indices = self.matrix.indices
        free = max(indices, default=-1) + 1
        unlinked = [name for name in names if self.gpus.get(name) not in indices]
        number = {name: self.gpus[name] for name in names if self.gpus.get(name) in indices}
        number |= {name: free + i for i, name in enumerate(unlinked)}
        name_of = {index: name for name, index in number.items()}
        if len(name_of) < len(number) or not number.keys() >= set(included):
            return ()
        more = tuple(MatrixGpu(free + i) for i in range(len(unlinked)))
        matrix = LinkMatrix((*self.matrix.gpus, *more), (), self.matrix.links)
        request = GpuRequest(size, frozenset(name_of), frozenset(number[name] for name in included))
        return tuple(name_of[index] for index in allocate(matrix, request, self.options).devices)
