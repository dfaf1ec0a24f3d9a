"""What is fuzzed: each parser of bytes that somebody else wrote, as a function of bytes.

``run`` swallows what its parser documents; any other exception is a find. A function of bytes is also what
coverage-guided fuzzers take. ``seeds`` are sound inputs, from which mangled ones are made.
"""

import contextlib
import gzip
import json
import tarfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import h11

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.config.last_known_good import KNOWN_GOOD, KnownGood
from cri_proxy.config.load import load_config, parse_config
from cri_proxy.cri.annotations.rules import DOMAINS
from cri_proxy.cri.annotations.table import TABLE
from cri_proxy.errors import ConfigError, StoreError
from cri_proxy.extender.demand import QuestionError
from cri_proxy.extender.messages import filter_answer, read_question
from cri_proxy.foreign_text import WORDS_BYTES, admit, is_same_failure, visible_lines
from cri_proxy.http.connection import read_head
from cri_proxy.http.messages import BadRequest, names_this_machine
from cri_proxy.http2 import frames
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.headers import FieldReader, write_literals
from cri_proxy.http2.message import MessageError, pack, unpack_one
from cri_proxy.link_file import as_link_document, read_link_document
from cri_proxy.relay.calls import Interest
from cri_proxy.relay.splice import Splice
from cri_proxy.simulate.scenario.parse import parse_scenario
from cri_proxy.yaml_fields import DocumentError, YamlField
from sysfs.archives.tar import read_archive
from sysfs.cpuset import CpuSet, CpuSetError
from sysfs.discover import discover_tree
from sysfs.errors import MachineSourceError, SysfsBaseError
from sysfs.quantity import QuantityError, parse_bytes, parse_mcpu
from tests.fakes.annotations import parse_annotations
from tests.fakes.http2 import GREETING, reply, request
from tests.fakes.machines import small_machine
from tests.fakes.scheduler import arguments, container, named_arguments, node, pod
from tests.fakes.sysfs_tree import files_of, links_of, memory_tree
from tests.fuzz.budget import Budget
from tests.fuzz.device_targets import DEVICE_TARGETS
from tests.fuzz.document_targets import DOCUMENT_TARGETS
from tests.fuzz.target import CONFIGS, Target, text_of, yaml_seeds

MACHINE: Final = small_machine(pci=[{"address": "10:01.0", "class": 0x060400, "node": 0}])
FILES: Final = files_of(MACHINE)
PATHS: Final = sorted(FILES)
ENCODINGS: Final = (b"", b"gzip", b"deflate", b"snappy")


def foreign_text(data: bytes) -> None:
    """What a runtime or a pod says, on its way into a record and onto a terminal."""
    text = text_of(data)
    words = admit(text)
    assert words.isprintable()
    assert len(words) <= WORDS_BYTES
    assert is_same_failure(admit(f"task 7: {text}"), admit(f"task 4f6a00d1: {text}"))
    assert visible_lines(text).replace("\n", "").isprintable()


def annotation(data: bytes) -> None:
    """KEY, a line's end, VALUE. A value that is not understood is told, never raised."""
    key, _, value = text_of(data).partition("\n")
    for problem in parse_annotations({key: value}, "c0").problems:
        assert problem.problem


def configuration(data: bytes) -> None:
    try:
        parse_config(text_of(data))
    except ConfigError as error:
        assert error.problem


def kept_configuration(data: bytes) -> None:
    """What is understood is written again and means the same."""
    try:
        kept = KNOWN_GOOD.decode(data, "f")
    except StoreError as error:
        assert error.problem
    else:
        assert KNOWN_GOOD.decode(_document(kept), "f") == kept


def scenario(data: bytes) -> None:
    try:
        parse_scenario(text_of(data))
    except DocumentError as error:
        assert str(error)


def sysfs_file(data: bytes) -> None:
    """The first byte chooses a file of a machine, the others are what stands in it."""
    path = PATHS[(data[0] if data else 0) * len(PATHS) // 256]
    try:
        discover_tree(memory_tree({**FILES, path: data[1:]}, links_of(MACHINE)))
    except SysfsBaseError as error:
        assert str(error)


def cpu_list(data: bytes) -> None:
    text = text_of(data)
    try:
        assert CpuSet.parse(str(CpuSet.parse(text))) == CpuSet.parse(text)
    except CpuSetError as error:
        assert str(error)


def scheduler_question(data: bytes) -> None:
    """What the scheduler sends to an extender; what is understood can be answered."""
    try:
        question = read_question(data)
        json.loads(filter_answer(question, {node.name: "why" for node in question.candidates[::2]}))
    except QuestionError as error:
        assert error.problem


LINK_DIALECT: Final = Dialect(1 << 20, 20, 100_000)


def link_file(data: bytes) -> None:
    """A file of GPU links: the text of the tool, or YAML with matrices; a matrix has no link of a GPU to itself."""
    try:
        for root in YamlField.documents(as_link_document(text_of(data)), "file", LINK_DIALECT):
            matrix = read_link_document(root)
            assert all(one != other for one, other in matrix.links)
    except DocumentError as error:
        assert error.problem


def held(method: str) -> Interest:
    return Interest.HOLD if method.startswith("/s/") else Interest.PASS


def http2_frames(data: bytes) -> None:
    """What a client says, and after half of it what a runtime says; garbage breaks this connection and nothing else."""
    splice = Splice(held)
    try:
        splice.receive_from_client(data[: len(data) // 2])
        splice.receive_from_runtime(data[len(data) // 2 :])
        splice.receive_from_client(data[len(data) // 2 :])
    except ProtocolError as error:
        assert error.problem


def archive(data: bytes) -> None:
    """A tar. The checksums of its headers are corrected, since otherwise hardly any input would pass the first."""
    tar = bytearray(data)
    for at in range(0, len(tar) - tarfile.BLOCKSIZE + 1, tarfile.BLOCKSIZE):
        block = tar[at : at + tarfile.BLOCKSIZE]
        if block[257:262] == b"ustar":
            tar[at + 148 : at + 156] = b"%06o\0 " % (sum(block) - sum(block[148:156]) + 8 * ord(" "))
    with TemporaryDirectory() as directory:
        file = Path(directory) / "machine.tar.gz"
        file.write_bytes(gzip.compress(tar, 1))
        try:
            read_archive(file)
        except MachineSourceError as error:
            assert error.problem


def tar_seed(form: int) -> bytes:
    stream = BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as tar:
        for name in (PATHS[0], f"{'a/' * 60}{PATHS[0]}", f"notes/{PATHS[1]}"):
            info = tarfile.TarInfo(name)
            info.size, info.pax_headers = 700, {"size": "700", "comment": "\u00e9"}
            tar.addfile(info, BytesIO(bytes(700)))
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE):
            info = tarfile.TarInfo(PATHS[2])
            info.type, info.linkname = kind, PATHS[0]
            tar.addfile(info)
    return stream.getvalue()


def header_block(data: bytes) -> None:
    reader = FieldReader(frozenset({b":path", b"x"}))
    try:
        for _ in range(2):  # the second time with what the first left in the table
            reader.read(data)
        reader.begin()
        for start in range(0, len(data), 7):
            reader.feed(data[start : start + 7])
        reader.finish()
    except ProtocolError as error:
        assert error.problem


def grpc_message(data: bytes) -> None:
    """The first byte chooses an encoding."""
    try:
        unpack_one(data[1:], ENCODINGS[(data[0] if data else 0) % len(ENCODINGS)])
    except MessageError as error:
        assert error.problem


def quantity(data: bytes) -> None:
    try:
        assert min(parse_bytes(text_of(data)), parse_mcpu(text_of(data))) >= 0
    except QuantityError as error:
        assert str(error)


def http_request(data: bytes) -> None:
    wire = h11.Connection(h11.SERVER)
    wire.receive_data(data)
    with contextlib.suppress(h11.RemoteProtocolError, BadRequest):
        head = wire.next_event()
        if isinstance(head, h11.Request):
            names_this_machine(read_head(head).host)


def kept_seed(path: Path) -> bytes:
    return _document(KnownGood(load_config(path).config, path, path, "rt", "ab" * 32, 1.7e9))


def _document(kept: KnownGood) -> bytes:
    return json.dumps(KNOWN_GOOD.document(kept)).encode()


TARGETS: Final = (
    Target(
        "foreign-text",
        foreign_text,
        (b"exec: \x1b[31m\xe2\x80\xae no\r\n", b"task 4f6a00d1: exit status 137", "café 👍".encode()),
        grown=(b"4f6a", b"\x1b", "👍".encode()),
    ),
    Target(
        "annotation",
        annotation,
        tuple(f"{DOMAINS[0]}/{row.key}\n{example}".encode() for row in TABLE for example in row.examples),
    ),
    Target("configuration", configuration, yaml_seeds("*.yaml")),
    Target("kept-configuration", kept_configuration, tuple(map(kept_seed, sorted(CONFIGS.glob("*.yaml"))))),
    Target("scenario", scenario, yaml_seeds("scenarios/*.yaml")),
    Target(
        "sysfs",
        sysfs_file,
        tuple(bytes([at * 256 // len(PATHS)]) + FILES[p].encode() for at, p in enumerate(PATHS)),
        Budget(rounds=500_000),  # a whole machine is read
    ),
    Target(
        "archive",
        archive,
        (tar_seed(tarfile.GNU_FORMAT), tar_seed(tarfile.PAX_FORMAT)),
        Budget(rounds=500_000, memory_bytes=512 << 10),  # a file is written, and unpacked by a decompressor's window
    ),
    Target(
        "cpu-list",
        cpu_list,
        (b"0-3,8", b"0", b"", b"0-127,256-383\n", b"1-10:2/4"),
        grown=(b"65535,", b"0-65535,", b"0,2,4,6,", b"1,65534,"),
    ),
    Target(
        "scheduler-question",
        scheduler_question,
        (
            json.dumps(
                arguments(pod(2, init=[container("i", 1, restartPolicy="Always")]), [node("a", "v1.none")])
            ).encode(),
            json.dumps(named_arguments(pod(1), ["a", "b"])).encode(),
        ),
        Budget(rounds=200_000, rounds_a_byte=300, memory_bytes=1 << 20, memory_a_byte=200),
        grown=(b'{"metadata":{"name":"n"}},', b'"n",', b"[", b'{"Pod":'),
    ),
    Target(
        "link-file",
        link_file,
        (b"nvlink: [[X, 2], [2, X]]\npcie: [X PIX, PIX X]\n---\npcie: [[X]]\n", b'{"text": "GPU0 GPU1\\nGPU0 X NV2"}'),
        grown=(b"- X PIX\n", b"GPU0 X PIX\n"),
    ),
    Target("quantity", quantity, (b"2Gi", b"750m", b"0.5", b"1e3", b"100n"), grown=(b"1e9", b"0.0")),
    Target(
        "frames",
        http2_frames,
        (
            GREETING + request(1, "/s/Hold", b"message") + reply(1, b"answer"),
            GREETING + frames.settings([(4, 1), (5, 1 << 24)]),
        ),
    ),
    Target(
        "headers",
        header_block,
        (
            write_literals([(b":path", b"/s/Hold"), (b"x", b"y" * 200)]),
            bytes.fromhex("828684418cf1e3c2e5f23a6ba0ab90f4ff"),
        ),
    ),
    Target("message", grpc_message, (b"\0" + pack(b"abc"), b"\1\1" + pack(b"abc")[1:])),
    Target(
        "http",
        http_request,
        (b"GET /api/v1/explain?pod=a HTTP/1.1\r\nHost: localhost:8891\r\nConnection: close\r\n\r\n",),
    ),
    *DEVICE_TARGETS,
    *DOCUMENT_TARGETS,
)
