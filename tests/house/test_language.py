"""Plain words: no private phrases, names that a node engineer knows, and floors that can be overseen."""

from collections import Counter
from pathlib import Path

import pytest

from tests.house import language
from tests.house.language import Findings, phrases_in, spoken

# (file, phrase) that may stay, with the reason.
ALLOWED_PHRASES: dict[tuple[str, str], str] = {}
# Small modules that stay apart from their only importer, with the reason.
ALLOWED_TINY: dict[str, str] = {
    "cri_proxy/daemon/helper_watch.py": "it waits for the end of a process; app.py likewise",
    "cri_proxy/node/status/history.py": "pure; the view of a node, which uses it, is as long as a module may be",
    "cri_proxy/runtime/embedded/images.py": "the image service, beside a module for each part of the runtime service",
}

# Words of module names beside those of docs/glossary.md.
LINUX = """
    affinity beneath cgroup cpufreq fd fingerprint host hotplug hugepages inotify journal kernel linux meminfo memory
    mount mountinfo namespace netlink notify page pci pidfd pipe proc process procfs psi scheduling signal socket
    symlink sysfs systemd tar tmpfiles topology unix user volume watch watchers
"""
KUBERNETES = """
    admission agent api aware burst capacity cdi checkpoint cluster condition configmap containerd crio device
    endpoint exact exec exporter extender image installer inventory kube label lease list lister listwatch manager
    manifests nvidia plugin podresources pull quantity quota register resize resource runc scheduler score shim spec
    stats strict taint topology v1 workload
"""
RPC_AND_HTTP = """
    boundary call channel client codec connection deadline direction fields flight flow frame goaway grpc grpcio h11
    h2 handover header hpack http http1 http2 huffman in inprocess json listener loop message metadata method
    passthrough preface proto proxy remote route rpc server sse status stream tls unary upstream window
"""
# What any engineer calls the parts of a program.
ENGINEERING = """
    access account activate adapter address admin adoption allocate amount annotation answers app apply archive
    arguments arithmetic as assemble audit backlog balance base boot bounded budget builder builtin cache capture
    catalog change check child choice choose cleared cli clock code cold column config confirmed conflict constraint
    content cut candidate chooser contested
    context controller conversion coordinator cost counters create daemon database deadlock debounce default demand
    import incident late lazy modules
    demo describe description diff directory discover discovery docs doctor driver edit effect emulator engine error
    actions anneal choices compare derive distribution documents graph graphviz greedy search select unlisted
    evaluate event executor expect explain exposition expression extent external fact factor failure fallback fault file
    filter force form format function gate gauge generate glob good gpu hardware hash helper hint history identity index
    convert feature inline publish
    input intercept interest interval invariant key kind known lag language last layout level lexer line link lint load
    locality location lock log loop main match measure merge metrics migrate migration model name narrow none notice
    number object observer offer open operation option order ordered outcome outline output override packing parse
    parser part matrix partition
    problems remedies terminal command completion help shell man
    patch path permission persistence pick picker picture place placement plan preference private probe progress queue
    range reach read reader reason rebalance rebuild reconfigure record recover registry reinstate reload remove render
    replan report request reset resolve response restart restore result resync retained retry return row rule run
    removal runner safe scale scenario schema scope script second section selector sequence session setting setup show
    sibling simulate simulation snapshot spill spread start startup state step stop store summary supply support swap
    switch health free
    sync syntax table tallies target task template testbed text time timer tokens tool traffic transaction transport
    tryout type unit unmet usage validate value variables verify version view vocabulary wait warning widen workers
    write writer count yaml
"""
WORDS = set(f"{LINUX} {KUBERNETES} {RPC_AND_HTTP} {ENGINEERING}".split())
# Nouns of the field that end in "ing".
GERUNDS = {"packing", "pinning", "ranking", "scheduling", "setting"}


def without(findings: Findings, allowed: set[str]) -> Findings:
    left = {room: [item for item in items if item not in allowed] for room, items in findings.items()}
    return {room: items for room, items in left.items() if items}


def test_docstrings_comments_messages_and_pages_are_plain() -> None:
    assert without(language.phrases(), {f"{path}: {phrase}" for path, phrase in ALLOWED_PHRASES}) == {}


def test_every_word_of_a_module_name_is_known_to_the_field() -> None:
    assert language.unknown_names(WORDS | language.glossary_words()) == {}


def test_no_module_name_is_a_gerund_but_the_nouns_of_the_field() -> None:
    assert language.gerunds(GERUNDS) == {}


def test_a_tiny_module_has_more_than_one_importer() -> None:
    found = language.tiny_modules()
    assert {r: left for r, items in found.items() if (left := [i for i in items if not is_allowed_tiny(i)])} == {}


def is_allowed_tiny(finding: str) -> bool:
    return finding.partition(":")[0] in ALLOWED_TINY


def test_no_folder_of_the_product_is_crowded() -> None:
    assert language.crowded_folders() == {}


def test_no_class_name_stands_twice_in_the_product() -> None:
    assert language.repeated_classes() == {}


def test_an_exception_is_dropped_once_it_is_not_needed() -> None:
    phrases = {item for items in language.phrases().values() for item in items}
    tiny = {item.partition(":")[0] for items in language.tiny_modules().values() for item in items}
    assert [key for key in ALLOWED_PHRASES if ": ".join(key) not in phrases] == []
    assert ALLOWED_TINY.keys() - tiny == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Nobody is told.", ["Nobody"]),
        ("what is told\nof a decision", ["told of"]),
        ("fortune tellers of courses", []),
        ("renewed, not anew", ["anew"]),
    ],
)
def test_a_phrase_is_found_across_lines_and_in_whole_words(text: str, found: list[str]) -> None:
    assert phrases_in(text) == found


def test_comments_and_literals_are_read_and_code_is_not(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text('"""What is told\nof."""\nnobody = 1  # told\n# of\nx = ("comes "\n  f"to {x}")\n')
    found = Counter(phrase for text in spoken(module) for phrase in phrases_in(text))
    assert found == {"told of": 2, "comes to": 1}
