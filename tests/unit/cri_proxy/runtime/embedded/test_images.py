from cri_proxy.cri.methods import IMAGE
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime


def new() -> ScriptedRuntime:
    return ScriptedRuntime(small_machine(), image_names=["busybox"])


async def tags(runtime: ScriptedRuntime, name: str = "") -> list[str]:
    request = pb.ListImagesRequest(filter=pb.ImageFilter(image=pb.ImageSpec(image=name)))
    reply = pb.ListImagesResponse.FromString(await runtime.call(IMAGE + "ListImages", request.SerializeToString()))
    return [tag for image in reply.images for tag in image.repo_tags]


async def pull(runtime: ScriptedRuntime, name: str) -> str:
    request = pb.PullImageRequest(image=pb.ImageSpec(image=name))
    reply = await runtime.call(IMAGE + "PullImage", request.SerializeToString())
    return pb.PullImageResponse.FromString(reply).image_ref


async def test_a_pulled_image_is_there_until_it_is_removed() -> None:
    runtime = new()
    reference = await pull(runtime, "team/app:2")
    assert await tags(runtime) == ["docker.io/library/busybox:latest", "docker.io/team/app:2"]
    spec = pb.RemoveImageRequest(image=pb.ImageSpec(image=reference))
    await runtime.call(IMAGE + "RemoveImage", spec.SerializeToString())
    assert await tags(runtime) == ["docker.io/library/busybox:latest"]


async def test_a_second_pull_gives_the_same_image() -> None:
    runtime = new()
    assert await pull(runtime, "x") == await pull(runtime, "docker.io/library/x:latest")


async def test_a_filter_names_one_image() -> None:
    assert await tags(new(), "busybox") == ["docker.io/library/busybox:latest"]
    assert await tags(new(), "other") == []


async def test_the_streamed_list_and_the_sizes_are_those_of_the_list() -> None:
    runtime = new()
    streamed = [pb.StreamImagesResponse.FromString(m) async for m in runtime.stream(IMAGE + "StreamImages", b"")]
    info = pb.ImageFsInfoResponse.FromString(await runtime.call(IMAGE + "ImageFsInfo", b""))
    assert info.image_filesystems[0].used_bytes.value == sum(r.images[0].size for r in streamed) > 0
