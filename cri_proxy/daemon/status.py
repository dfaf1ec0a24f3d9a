"""Add the daemon's parts to the status of its node: files that hang, the HTTP address, the parts that it watches."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from cri_proxy import events
from cri_proxy.costs.words import wins_by_silence
from cri_proxy.cri.devices.gpu_variables import has_nvidia_gpus
from cri_proxy.daemon.device_sources import DeviceSources
from cri_proxy.daemon.loop_lag import LoopLag
from cri_proxy.daemon.watchers import Watchers
from cri_proxy.file_workers import FileWorkers
from cri_proxy.logs import Log
from cri_proxy.metrics import catalog
from cri_proxy.metrics.exposition import Sample
from cri_proxy.metrics.process import process_samples, task_samples
from cri_proxy.node.node import Node
from cri_proxy.node.status.inventory import InventoryFileView
from cri_proxy.node.status.model import CdiView, ConfigurationView, CostFilesView, HealthPart
from cri_proxy.node.status.view import DaemonStatus
from cri_proxy.relay.traffic import Traffic
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.version import version


@dataclass(frozen=True, slots=True)
class HostFiles:
    """Workers for the host's own files, and others for pods' files: volumes that hang never hold the former."""

    of_host: FileWorkers
    of_pods: FileWorkers

    def warnings(self) -> Iterator[str]:
        """Yield a sentence for each mount or directory that hangs."""
        for whose, workers, effect in (
            ("the host", self.of_host, "what is kept there is not written or read until it does"),
            ("pods", self.of_pods, "containers are placed without its locality until it does"),
        ):
            for subject, seconds in workers.hanging():
                yield f"files of {whose}: {subject} has not answered for {seconds:.0f} s; {effect}"

    def samples(self) -> Iterator[Sample]:
        """Yield how many mounts and directories hang."""
        yield Sample(catalog.FILES_HANGING, len(self.of_pods.hanging()), ("pod",))
        yield Sample(catalog.FILES_HANGING, len(self.of_host.hanging()), ("host",))

    def close(self) -> None:
        """End the workers that do nothing."""
        self.of_host.close()
        self.of_pods.close()


class HttpAddress:
    """The state of the HTTP server's TCP address: a warning while it is unavailable, e.g. used by another process."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._problem = self._files_problem = ""

    def failed(self, address: str, problem: str) -> None:
        """Log and remember why it could not be opened; the server retries."""
        self._problem = problem
        self._log.warning(events.HTTP_UNAVAILABLE, address=address, reason=problem)

    def opened(self, address: str) -> None:
        """Log that it could be opened after all."""
        self._problem = ""
        self._log.info(events.HTTP_AVAILABLE, address=address)

    def files_judged(self, problem: str) -> None:
        """Log and remember why the files of TLS cannot be used as they are now; '' = they can, and are."""
        self._files_problem = problem
        if problem:
            self._log.warning(events.HTTP_FILES_REJECTED, reason=problem)
        else:
            self._log.info(events.HTTP_FILES_APPLIED)

    def warnings(self) -> tuple[str, ...]:
        """Return the problems as sentences."""
        files = f"httpTLS: {self._files_problem}; what was read before stays in force"
        return (*([f"http: {self._problem}"] if self._problem else ()), *([files] if self._files_problem else ()))


class Warns(Protocol):
    """A part with warnings for the operator."""

    def warnings(self) -> Iterable[str]:
        """Return a sentence for each."""


@dataclass(frozen=True, slots=True)
class LiveDaemonStatus(DaemonStatus):
    """The daemon's part of the status; ``health`` returns the parts that the daemon itself knows of.

    ``also`` are parts that only have warnings.
    """

    node: Node
    channel: RuntimeClient
    watchers: Watchers
    devices: DeviceSources
    also: tuple[Warns, ...]
    http: HttpAddress
    files: HostFiles
    lag: LoopLag
    traffic: Traffic
    health: Callable[[], Iterable[HealthPart]]
    relay: str  # the kind

    def reaches_runtime(self) -> bool:
        """Return whether the runtime's socket answers."""
        return self.channel.reaches_runtime()

    def parts(self) -> Iterable[HealthPart]:
        """Return the health of the kubelet's socket and of what reads files."""
        return self.health()

    def samples(self) -> Iterator[Sample]:
        """Yield the samples of the relays, the event loop, the process, its tasks and the build."""
        yield from self.traffic.samples()
        yield from self.lag.samples()
        yield from self.files.samples()
        yield from process_samples()
        yield from task_samples()
        yield Sample(catalog.BUILD, 1, (version(), self.node.context.ledger.policy.name, self.relay))

    def configuration(self) -> ConfigurationView:
        """Return the state of the configuration."""
        return self.watchers.reloader.view()

    def costs(self) -> CostFilesView:
        """Return the state of the cost files."""
        costs, directory = self.devices.costs.content, self.node.coordinator.config.costs.directory
        silent = tuple(name for names in wins_by_silence(costs).values() for name in names)
        count = sum(map(len, costs.devices.values()))
        return CostFilesView(directory, self.devices.costs.report, device_count=count, silent=silent)

    def cdi(self) -> CdiView:
        """Return how containers get CDI devices."""
        known = self.node.runtime_cdi
        return CdiView(known.way.value, self.node.coordinator.config.cdi, known.text(), known.problems())

    def inventory(self) -> InventoryFileView:
        """Return the state of the inventory file, and of what is joined with it."""
        options = self.node.coordinator.config.devices
        policy = self.node.context.ledger.policy
        shows_gpus = self.node.coordinator.config.visible_devices == "leave" and has_nvidia_gpus(policy.devices)
        report, found = self.devices.listed.report, policy.known.disagreements
        problem = self.devices.health.problem
        return InventoryFileView(options.inventory, options.scan, report, found, shows_gpus, problem)

    def warnings(self) -> tuple[str, ...]:
        """Return the warnings of all parts around the node."""
        files = (self.devices.costs, self.devices.listed, self.devices.health)
        parts: tuple[Warns, ...] = (self.lag, self.http, self.files, self.watchers, *files, *self.also)
        return tuple(warning for part in parts for warning in part.warnings())
