from cri_proxy.cli.render.doctor import render_doctor, render_removal
from cri_proxy.doctor.catalog import Finding, Severity
from cri_proxy.doctor.facts.model import RuntimeFacts
from cri_proxy.doctor.report import DoctorReport, Seen, examine
from cri_proxy.kubelet.settings import KubeletFile, merge_settings
from tests.fakes.node_facts import CONFIG, THEIRS, WIRED, cpus, healthy, kubelet
from tests.house.tree import ROOT

SEEN = (Seen("kubelet", "does not run"),)


def test_the_name_of_a_part_is_not_broken_where_the_lines_are_long() -> None:
    parts = (Seen("CDI devices", "resolved by cri-proxy"), Seen("its files", ", ".join(["/a/long/path"] * 12)))
    lines = render_doctor(DoctorReport(parts, ()), width=110).splitlines()
    assert lines[0] == "CDI devices  resolved by cri-proxy"


def test_findings_are_numbered_through_below_their_severity() -> None:
    report = DoctorReport(
        SEEN,
        (
            Finding("endpoint", Severity.MUST, "It says x.", "set y"),
            Finding("node-name", Severity.SHOULD, "It is a."),
            Finding("old-cgroups", Severity.NOTE, "It is v1.", "boot"),
        ),
    )
    assert render_doctor(report).splitlines() == [
        "kubelet  does not run",
        "",
        "must be mended, in this order:",
        "  1. endpoint",
        "     It says x.",
        "     -> set y",
        "",
        "should be changed:",
        "  2. node-name",
        "     It is a.",
        "",
        "to know:",
        "  3. old-cgroups",
        "     It is v1.",
        "     -> boot",
        "",
        "1 thing must be mended.",
    ]


def test_without_findings_the_verdict_is_short() -> None:
    assert render_doctor(DoctorReport(SEEN, ())).splitlines()[-1] == "Nothing must be mended."


def test_what_was_not_seen_is_said_and_limits_the_verdict() -> None:
    text = render_doctor(DoctorReport(SEEN, (), ("the CPUs: no such file",)))
    assert "not seen: the CPUs: no such file" in text
    assert text.endswith("No problem was found in the files that could be read.")


def test_codes_are_coloured_by_severity_where_colours_are_wanted() -> None:
    report = DoctorReport(SEEN, (Finding("endpoint", Severity.MUST, "x"),))
    assert "\x1b[31mendpoint\x1b[0m" in render_doctor(report, colours=True)
    assert "\x1b" not in render_doctor(report)


def test_a_removal_is_answered_with_yes_no_or_not_known() -> None:
    reason = Finding("uses-proxy", Severity.MUST, "It is connected.", "systemctl stop kubelet")
    assert render_removal(DoctorReport(SEEN, (reason,))).splitlines() == [
        "kubelet: does not run",
        "  1. uses-proxy",
        "     It is connected.",
        "     -> systemctl stop kubelet",
        "The kubelet depends on cri-proxy.",
    ]
    assert render_removal(DoctorReport(SEEN, ())).endswith("The kubelet does not depend on cri-proxy.")
    assert "It is not known" in render_removal(DoctorReport(SEEN, (), ("whom it talks to: no",)))


def test_the_page_shows_what_is_printed() -> None:
    drop_in = KubeletFile("/etc/kubernetes/kubelet.conf.d/20-static.conf", "cpuManagerPolicy: static\n")
    reserved = 'reservedSystemCPUs: "0"\n'
    both = merge_settings((), [KubeletFile(CONFIG, f"{WIRED}{reserved}"), drop_in])
    runtime = RuntimeFacts("/run/containerd/containerd.sock", runc="1.2.8")
    kubelet_facts = kubelet(
        now=merge_settings((), [KubeletFile(CONFIG, f"containerRuntimeEndpoint: {THEIRS}\n{reserved}"), drop_in]),
        next=both,
        files=(KubeletFile(CONFIG, WIRED), drop_in),
        is_client=False,
        others=(runtime.socket,),
    )
    node = healthy(kubelet=kubelet_facts, runtime=runtime, cpus=cpus("0-15", reserved="0"))
    text = render_doctor(examine(node))
    page = (ROOT / "docs" / "doctor.md").read_text()
    assert "\n".join(f"    {line}".rstrip() for line in text.splitlines()) in page
