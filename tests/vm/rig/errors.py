"""What keeps a machine from being built or run."""

from dataclasses import dataclass


class RigError(Exception):
    """Base of everything that the rig raises."""


@dataclass(eq=False)
class TopologyError(RigError):
    """A topology that cannot be built: the field and what is wrong with it."""

    field: str
    problem: str

    def __str__(self) -> str:
        return f"topology: {self.field}: {self.problem}"


@dataclass(eq=False)
class MachineError(RigError):
    """A machine that did not run its command: why, and the end of what QEMU and the console said."""

    problem: str
    console: str = ""

    def __str__(self) -> str:
        return f"{self.problem}\n{self.console}".strip()


@dataclass(eq=False)
class ImageError(RigError):
    """The guest's disk could not be made: the step, and the end of what it said."""

    step: str
    output: str = ""

    def __str__(self) -> str:
        return f"guest image: {self.step}\n{self.output}".strip()
