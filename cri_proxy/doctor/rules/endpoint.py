"""Judge whom the kubelet talks to, now and after its next start, what would change that, what needs us. Pure."""

from collections.abc import Iterator

from cri_proxy.doctor.catalog import Finding, FindingCode
from cri_proxy.doctor.facts.model import HostFacts
from cri_proxy.doctor.facts.processes import is_embedded
from cri_proxy.kubelet.edits import edit_of
from cri_proxy.kubelet.settings import ENDPOINT, HOSTNAME, Word, flag_settings
from cri_proxy.kubelet.unit import KUBEADM_INSTANCE


def uses_proxy(facts: HostFacts) -> Iterator[Finding]:
    """Name each reason: the running kubelet's connection or flags, and what its next start will use."""
    kubelet, own = facts.kubelet, facts.proxy
    now, coming = kubelet.now.get(ENDPOINT), kubelet.next.get(ENDPOINT)
    if kubelet.process is not None and (kubelet.is_client or own.is_named_by(now.value)):
        how = "is connected to cri-proxy" if kubelet.is_client else f"takes {now.value} from {now.where}"
        yield FindingCode.USES_PROXY.finding(
            f"the running kubelet (process {kubelet.process.pid}) {how}", kubelet.distribution.stop
        )
    if own.is_named_by(coming.value):
        reload = "" if kubelet.distribution.is_service_of_its_own else ", then systemctl daemon-reload"
        yield FindingCode.USES_PROXY.finding(
            f"{coming.where} has {coming.value}: the kubelet's next start uses cri-proxy",
            f"remove it from {coming.where.partition(', --')[0]}{reload}",
        )


FLAG = "--container-runtime-endpoint"
DROP_IN = "/usr/lib/cri-proxy/kubelet.service.d/10-cri-proxy.conf"  # in the sources below packaging
EXTRA_ARGS = "KUBELET_EXTRA_ARGS"
ANNOTATION = "kubeadm.alpha.kubernetes.io/cri-socket"
# A process's start is known to a second, because the kernel gives its own as a whole number (btime in /proc/stat).
_START_SECONDS = 2.0


def kubelet_files(facts: HostFacts) -> Iterator[Finding]:
    """The kubelet must be able to read its files."""
    for path, problem in facts.kubelet.next.problems:
        yield FindingCode.KUBELET_FILE.finding(
            f"{path}: {problem}: the kubelet does not start with it", f"correct {path}"
        )


def next_start(facts: HostFacts) -> Iterator[Finding]:
    """The strongest place that names an endpoint must name cri-proxy's."""
    kubelet, own = facts.kubelet, facts.proxy
    setting, found = kubelet.next.get(ENDPOINT), kubelet.distribution
    if own.is_named_by(setting.value):
        return
    if hidden := _hidden(facts):
        yield hidden
        return
    # A program around the kubelet passes it flags of its own: ``running_kubelet`` says that these are not seen.
    if setting.is_default and kubelet.process and is_embedded(kubelet.process) and not kubelet.distribution.name:
        return
    if setting.is_default:
        drop_in = f", as the drop-in {DROP_IN} does for kubeadm's unit, put into /etc/systemd/system/kubelet.service.d"
        where = f" ({found.place})".replace("`", "") if found.is_noted else drop_in
        yield FindingCode.ENDPOINT.finding(
            f"no flag and no file of the kubelet names an endpoint: its next start uses {setting.value}",
            f"give the kubelet {FLAG}={own.endpoint}{where}",
        )
    else:
        beaten = next((each for each in setting.beaten if own.is_named_by(each.value)), None)
        over = f", which beats {beaten.where}" if beaten else ""
        edit = kubelet.distribution.lasting(edit_of(setting, own.endpoint))
        yield FindingCode.ENDPOINT.finding(
            f"{setting.where} has {setting.value}{over}: the kubelet uses it at its next start", str(edit), (edit,)
        )


def _hidden(facts: HostFacts) -> Finding | None:
    """Return the finding of a drop-in that names cri-proxy, in a variable that a file sets to something else.

    The packages of pkgs.k8s.io install the file with an empty value.
    """
    variable = facts.kubelet.unit.variable(EXTRA_ARGS)
    if variable is None or variable.hidden is None:
        return None
    if _endpoint(variable.value) or not facts.proxy.is_named_by(_endpoint(variable.hidden.value) or "-"):
        return None
    return FindingCode.ENDPOINT_HIDDEN.finding(
        f"{variable.where} sets {EXTRA_ARGS}, so that {variable.hidden.where} has no effect",
        f"add {FLAG}={facts.proxy.endpoint} to the value of {EXTRA_ARGS} in {variable.where}",
    )


def _endpoint(value: str) -> str:
    words = [Word(word, "") for word in value.split()]
    return next((setting.value for setting in flag_settings(words) if setting.key == ENDPOINT), "")


def running_kubelet(facts: HostFacts) -> Iterator[Finding]:
    """The running kubelet must be connected to cri-proxy, whatever its files say by now."""
    kubelet, own = facts.kubelet, facts.proxy
    if kubelet.process is None:
        yield FindingCode.KUBELET_STOPPED.finding(
            "no kubelet runs: these values take effect at the kubelet's next start"
        )
        return
    is_hidden = is_embedded(kubelet.process) and not kubelet.distribution.name
    if is_hidden:
        yield FindingCode.KUBELET_EMBEDDED.finding(
            f"the kubelet is part of {kubelet.process}: its settings are not seen",
            f"pass the kubelet in it {FLAG}={own.endpoint} and the CPU manager's policy none",
        )
    uses = kubelet.now.get(ENDPOINT).value
    # A connection to the runtime's own socket beside ours proves nothing: cAdvisor, a part of the kubelet, has one too.
    if kubelet.is_client or (kubelet.is_client is None and own.is_named_by(uses)):
        return
    is_right = own.is_named_by(uses)
    if is_right and own.silence:
        return  # what keeps it away has been said
    talks = next((path for path in kubelet.others if path == facts.runtime.socket), "" if is_right else uses)
    whom = f"uses {talks} and" if talks else f"was started with {uses} and"
    then = "" if own.is_named_by(kubelet.next.get(ENDPOINT).value) else "once its files are right: "
    # Files that have changed do not say what it was started with.
    is_pending = is_right and not any(changed_files(facts))
    restart = f"restart {kubelet.process.name}" if is_hidden else kubelet.distribution.restart
    reload = restart if is_hidden else kubelet.distribution.reload
    again = f"run this again in a minute, the kubelet may be connecting; if it stays so: {restart}"
    yield FindingCode.KUBELET_ELSEWHERE.finding(
        f"the running kubelet (process {kubelet.process.pid}) {whom} is not connected to cri-proxy",
        again if is_pending else f"{then}{reload}",
    )


def changed_files(facts: HostFacts) -> Iterator[Finding]:
    """The kubelet runs with the files' values only when they are older than the process."""
    process = facts.kubelet.process
    if process is None:
        return
    for file in facts.kubelet.files:
        if file.changed_seconds > process.started_seconds + _START_SECONDS:
            yield FindingCode.KUBELET_CHANGED.finding(
                f"{file.path} has changed since the kubelet (process {process.pid}) started: it may use other values",
                facts.kubelet.distribution.restart,
            )


def overrides(facts: HostFacts) -> Iterator[Finding]:
    """A value of the configuration file that another place beats is easily misread."""
    for setting in facts.kubelet.next.settings:
        others = [each for each in setting.beaten if each.value != setting.value]
        if others and not (setting.key == ENDPOINT and facts.proxy.is_named_by(setting.value)):
            beaten = " and ".join(f"{each.value} of {each.where}" for each in others)
            yield FindingCode.OVERRIDE.finding(f"{setting.sentence}, and beats {beaten}")


def kubeadm(facts: HostFacts) -> Iterator[Finding]:
    """Kubeadm must not put another endpoint back. Since 1.34 it keeps one in a file, before in an annotation."""
    kubelet, own = facts.kubelet, facts.proxy
    instance = kubelet.instance.get(ENDPOINT) if kubelet.instance else None
    if instance and not instance.is_default and not own.is_named_by(instance.value):
        edit = edit_of(instance, own.endpoint)
        yield FindingCode.KUBEADM_ENDPOINT.finding(
            f"{KUBEADM_INSTANCE} has {instance.value}: `kubeadm upgrade` puts that into the kubelet's configuration",
            str(edit),
            (edit,),
        )
    if kubelet.is_of_kubeadm:
        name = kubelet.next.get(HOSTNAME).value or facts.host_name or "NODE"
        yield FindingCode.KUBEADM_ANNOTATION.finding(
            "kubeadm may write its files again from the node's annotation, which cannot be seen from here",
            f"where kubectl works: kubectl annotate node {name} --overwrite {ANNOTATION}={own.endpoint}",
        )


RULES = (kubelet_files, next_start, running_kubelet, changed_files, overrides, kubeadm)
