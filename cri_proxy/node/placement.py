"""Find a place for a container that is about to be created: check what has ended, decide, reserve, save."""

from cri_proxy.node.context import Context
from cri_proxy.node.coordinator import Coordinator, Refusal, Reservation
from cri_proxy.node.sync.resync import Resync
from policies.base import Reason, Rejected, Request


class Placer:
    """Places new containers; asks the runtime for exits before it refuses one."""

    def __init__(self, context: Context, coordinator: Coordinator, resync: Resync) -> None:
        self._context = context
        self._coordinator = coordinator
        self._resync = resync

    async def place(
        self, request: Request, sandbox_id: str, *, problems: tuple[str, ...] = ()
    ) -> Reservation | Refusal:
        """Reserve a place and make it durable. ``problems`` are annotations that were not understood."""
        if problems and self._coordinator.rules.strict_annotations:
            return self._refuse(request, Refusal("annotation", "; ".join(problems)))
        if self._context.ledger.of_pod(request.container.pod_uid):
            # No event announces the exit of an init container before the next create.
            await self._resync.check_pod(request.container.pod_uid)
        started = self._context.clock.monotonic_seconds()
        decided = self._coordinator.decide_and_reserve(request, sandbox_id)
        if isinstance(decided, Rejected):
            await self._resync.check_all("before a refusal")
            decided = self._coordinator.decide_and_reserve(request, sandbox_id)
        seconds = self._context.clock.monotonic_seconds() - started
        if isinstance(decided, Rejected):
            self._coordinator.report(request, decided, problems=problems, seconds=seconds)
            return Refusal("strict" if decided.reason.code.startswith("strict") else "full", decided.reason.text)
        try:
            self._coordinator.report(
                request,
                decided.decision,
                circumstances=decided.circumstances,
                problems=problems,
                seconds=seconds,
            )
            saved = await self._coordinator.save_reservation(decided)
        except BaseException as error:
            self._coordinator.roll_back_unsent(decided, error)
            raise
        if not saved and self._coordinator.rules.on_store_error == "reject":
            problem = f"the placement cannot be saved: {self._context.persistence.problem}"
            self._coordinator.roll_back(decided, problem, code="store")
            return self._refuse(request, Refusal("store", problem))
        return decided

    def _refuse(self, request: Request, refusal: Refusal) -> Refusal:
        """Report a refusal that is not the policy's."""
        self._coordinator.report(request, Rejected(Reason(refusal.kind, refusal.text)))
        return refusal
