"""CDI devices of which a test says what the files would answer."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from cri_proxy.cri.cdi.resolve import ResolvedDevices
from cri_proxy.file_workers import PLAIN_THREADS
from cri_proxy.intercept.cdi_devices import CdiDevices

DeclaredOf = Callable[[Sequence[str]], Awaitable[tuple[str, ...]]]
ResolvedOf = Callable[[Sequence[str]], Awaitable[ResolvedDevices]]
VariablesOf = Callable[[Sequence[str]], Awaitable[tuple[tuple[str, str], ...]]]


class ScriptedCdi(CdiDevices):
    """Answers by these functions; of what has none there is nothing."""

    def __init__(
        self,
        declared: DeclaredOf | None = None,
        resolved: ResolvedOf | None = None,
        variables: VariablesOf | None = None,
        unreadable: tuple[str, ...] = (),
    ) -> None:
        super().__init__(Path("/dev/null"), PLAIN_THREADS)
        self._declared, self._resolved, self._variables, self._unreadable = declared, resolved, variables, unreadable

    async def declared(self, names: Sequence[str]) -> tuple[str, ...]:
        return await self._declared(names) if self._declared else ()

    async def resolved(self, names: Sequence[str]) -> ResolvedDevices:
        return await self._resolved(names) if self._resolved else ResolvedDevices(())

    async def claim_variables(self, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
        return await self._variables(names) if self._variables else ()

    async def unreadable(self) -> tuple[str, ...]:
        return self._unreadable
