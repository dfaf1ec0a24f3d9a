"""Look now and then whether the kubelet lets pods request more CPU than can be granted; ``status`` warns of it."""

from collections.abc import Callable
from pathlib import Path

from cri_proxy.clock import Clock
from cri_proxy.file_workers import FileCalls, FilesFailed
from cri_proxy.kubelet.reservation import KubeletReserve, NodeCpus, reservation_gap
from cri_proxy.kubelet.unit import read_reserve
from policies.policy import Policy

# The files change when a person changes them, and the kubelet then needs a restart to follow.
LOOK_SECONDS = 60.0
READ_SECONDS = 2.0  # a unit, its drop-ins and the configuration


class ReservationWatch:
    """Reads what the kubelet reserves, and compares it with the policy in force."""

    def __init__(
        self,
        places: tuple[Path, Path],
        files: FileCalls,
        policy: Callable[[], Policy],
        *,
        clock: Clock,
        warn: Callable[[str], None],
    ) -> None:
        """``places`` are the system's root and the kubelet's directory; ``warn`` gets each new warning."""
        self._places = places
        self._files = files
        self._policy = policy
        self._clock = clock
        self._warn = warn
        self._warned = ""
        self._reserve: KubeletReserve | None = None

    async def watch(self) -> None:
        """Look at once and every minute. Runs until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Read the kubelet's files again; while they do not answer, their last content holds."""
        try:
            subject = str(self._places[1])
            self._reserve = await self._files.run(subject, read_reserve, *self._places, within_seconds=READ_SECONDS)
        except FilesFailed:
            return
        (warning,) = self.warnings() or ("",)
        if warning and warning != self._warned:
            self._warn(warning)
        self._warned = warning

    def warnings(self) -> tuple[str, ...]:
        """Return a sentence with the remedy where pods may request more than any container can be granted."""
        policy, reserve = self._policy(), self._reserve
        if reserve is None or policy.name == "none":  # which grants nothing
            return ()
        machine = policy.machine
        node = NodeCpus(machine.online, policy.available, policy.reserved, machine.isolated, policy.kept_cpus)
        gap = reservation_gap(reserve, node)
        return (str(gap),) if gap is not None and gap.excess_mcpu > 0 else ()
