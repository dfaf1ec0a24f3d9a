import pytest

from cri_proxy.cri.annotations.device_resources import OF_KOORDINATOR, device_quantity, requests_text
from cri_proxy.cri.annotations.pod import parse_pod, select
from cri_proxy.cri.annotations.read import Parsed, read_container, without_refused
from cri_proxy.cri.annotations.rules import DOMAINS, AnnotationRules, parse_restriction
from cri_proxy.cri.annotations.values import MAX_BYTES
from policies.base import ContainerKey, Pod, QosClass, Request
from policies.device_requests import DeviceAsk
from tests.fakes.annotations import parse_annotations

KEY = "cri-proxy.io/device-resources"
JOINT = "scheduling.koordinator.sh/device-joint-allocate"
SAME_PCIE = '{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}'
GPU_AND_NIC = (("koordinator.sh/rdma", 1), ("nvidia.com/gpu", 4))


def asked(text: str, container: str = "c0", **more: str) -> DeviceAsk:
    return parse_annotations({KEY: text, **more}, container).preferences.devices


def problem(text: str) -> str:
    parsed = parse_annotations({KEY: text}, "c0")
    assert parsed.preferences.devices == DeviceAsk()
    return "; ".join(found.problem for found in parsed.problems)


@pytest.mark.parametrize(
    "text",
    [
        "nvidia.com/gpu=4,koordinator.sh/rdma=1",
        " rdma = 1 , nvidia.com/gpu = 4 ",
        '{"nvidia.com/gpu": 4, "rdma": "1"}',
        "nvidia.com/gpu: 4\nkoordinator.sh/rdma: 1",
        "c0: nvidia.com/gpu=4,rdma=1",
        "{c0: {nvidia.com/gpu: 4, rdma: 1}, c1: none}",
    ],
)
def test_every_form_gives_the_amounts_by_full_name(text: str) -> None:
    assert asked(text) == DeviceAsk((), GPU_AND_NIC)


def test_a_map_of_short_names_is_for_the_whole_pod() -> None:
    shares = DeviceAsk((), (("koordinator.sh/gpu-core", 50), ("koordinator.sh/gpu-memory", 40 << 30)))
    assert asked("{gpu-core: 50, gpu-memory: 40Gi}") == shares
    assert asked("{rdma: {rdma: 1}}", "rdma") == DeviceAsk((), (("koordinator.sh/rdma", 1),))  # a container's name


def test_the_narrower_value_counts_and_none_takes_the_wider_one_away() -> None:
    both = {KEY: "nvidia.com/gpu=1", "device-resources.cri-proxy.io/container.c1": "none"}
    found = [parse_annotations(both, name).preferences.devices for name in ("c0", "c1")]
    assert found == [DeviceAsk((), (("nvidia.com/gpu", 1),)), DeviceAsk()]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nvidia.com/gpus=1", "did you mean nvidia.com/gpu?"),
        ("gpu.intel.com/i915=1", "'gpu.intel.com/i915' is no resource of devices; known: nvidia.com/gpu, "),
        ("cpu=2", "is no resource of devices; known:"),
        ("rdma=1,koordinator.sh/rdma=1", "koordinator.sh/rdma is named twice"),
        ("rdma=0", "asks for nothing"),
        ("rdma=1500m", "expected a whole number"),
        ("gpu-memory=much", "gpu-memory: "),
        ("{rdma: true}", "expected an amount"),
        ("rdma", "expected RESOURCE=AMOUNT pairs"),
        ("[rdma]", "expected RESOURCE=AMOUNT pairs"),
        ("{c0: rdma=1, nvidia.com/gpu=2}", "put the pairs into quotes"),
    ],
)
def test_what_is_no_amount_is_reported_with_a_remedy(text: str, words: str) -> None:
    assert words in problem(text)


def test_the_annotations_of_the_pod_that_say_how_come_along_as_they_are() -> None:
    assert asked("nvidia.com/gpu=4,rdma=1", **{JOINT: SAME_PCIE}) == DeviceAsk((), GPU_AND_NIC, ((JOINT, SAME_PCIE),))
    parsed = parse_annotations({KEY: "rdma=1", JOINT: SAME_PCIE}, "c0")
    assert parsed.origins == (("devices.requests", f"{KEY} and {JOINT}"),)


@pytest.mark.parametrize("key", OF_KOORDINATOR)
def test_annotations_that_say_how_ask_for_nothing_alone(key: str) -> None:
    parsed = parse_annotations({key: "{}"}, "c0")
    assert parsed == Parsed(origins=((f"without effect: {key}", key),))
    beside = parse_annotations({key: "{}", KEY: "{c1: rdma=1}"}, "c0")
    assert beside.origins == parsed.origins


def test_a_long_annotation_of_koordinator_counts_only_where_devices_are_asked_for() -> None:
    long = {JOINT: "x" * MAX_BYTES, "cri-proxy.io/prefer-isolated-cpus": "true"}
    assert parse_annotations(long, "c0").preferences.prefer_isolated
    assert "bytes for cri-proxy" in str(parse_annotations({**long, KEY: "rdma=1"}, "c0").problems)


def test_a_restricted_namespace_neither_asks_nor_keeps_its_wish() -> None:
    rules = AnnotationRules(DOMAINS, (parse_restriction("keys=device-resources namespaces=ml"),))
    pod = parse_pod(select({KEY: "rdma=1"}, DOMAINS), DOMAINS)
    assert read_container(pod, "c0", "ml", rules).preferences.devices
    refused = read_container(pod, "c0", "web", rules)
    assert refused.preferences.devices == DeviceAsk() and "restrictedAnnotations" in str(refused.problems)
    admitted = read_container(pod, "c0", "ml", rules)
    request = Request(ContainerKey("u", "c0"), Pod("u", "p", "web", QosClass.BURSTABLE), 0)
    stripped, why = without_refused(
        Request(request.container, request.pod, 0, preferences=admitted.preferences, origins=admitted.origins), rules
    )
    assert stripped.preferences.devices == DeviceAsk() and KEY in why


def test_amounts_are_worded_as_they_can_be_written() -> None:
    text = requests_text(asked("nvidia.com/gpu=4,rdma=1").requests)
    assert text == "koordinator.sh/rdma=1,nvidia.com/gpu=4"
    assert asked(text) == DeviceAsk((), GPU_AND_NIC)
    assert requests_text(()) == ""


def test_memory_is_in_bytes_and_the_rest_in_pieces() -> None:
    assert device_quantity("koordinator.sh/gpu-memory", "80Gi") == 80 << 30
    assert device_quantity("koordinator.sh/gpu-core", "50") == 50
