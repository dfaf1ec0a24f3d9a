"""The embedded runtime's images: every pull succeeds."""

from collections.abc import Iterator

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.runtime.embedded.state import UNKNOWN, Image, Node, Refusal, full_reference

_MOUNTPOINT = "/var/lib/embedded/images"


def _shown(image: Image) -> pb.Image:
    return pb.Image(id=image.id, repo_tags=[image.reference], repo_digests=[image.repo_digest], size=image.size_bytes)


def list_images(node: Node, request: pb.ListImagesRequest) -> pb.ListImagesResponse:
    """The images, or the one that the filter names."""
    return pb.ListImagesResponse(images=_listed(node, request.filter))


def _listed(node: Node, wanted: pb.ImageFilter) -> Iterator[pb.Image]:
    one = node.image(wanted.image.image) if wanted.image.image else None
    for image in node.images.values():
        if not wanted.image.image or image is one:
            yield _shown(image)


def stream_images(node: Node, request: pb.StreamImagesRequest) -> Iterator[pb.StreamImagesResponse]:
    """The same list, an image in each message."""
    for image in _listed(node, request.filter):
        yield pb.StreamImagesResponse(images=[image])


def image_status(node: Node, request: pb.ImageStatusRequest) -> pb.ImageStatusResponse:
    """The image, or an empty answer when it is not there."""
    image = node.image(request.image.image)
    return pb.ImageStatusResponse(image=_shown(image) if image else None)


def pull_image(node: Node, request: pb.PullImageRequest) -> pb.PullImageResponse:
    """The image is there from now on; its digest follows from its name."""
    reference = request.image.image
    if not reference:
        raise Refusal(UNKNOWN, f'failed to parse image reference "{reference}": invalid reference format')
    image = node.images.setdefault(full_reference(reference), Image.named(reference))
    return pb.PullImageResponse(image_ref=image.id)


def remove_image(node: Node, request: pb.RemoveImageRequest) -> pb.RemoveImageResponse:
    """The image is gone; one that is unknown is no error."""
    image = node.image(request.image.image)
    if image:
        del node.images[image.reference]
    return pb.RemoveImageResponse()


def image_fs_info(node: Node, request: pb.ImageFsInfoRequest) -> pb.ImageFsInfoResponse:
    """The sum of the images' sizes."""
    usage = pb.FilesystemUsage(
        timestamp=node.now_ns(),
        fs_id=pb.FilesystemIdentifier(mountpoint=_MOUNTPOINT),
        used_bytes=pb.UInt64Value(value=sum(i.size_bytes for i in node.images.values())),
        inodes_used=pb.UInt64Value(value=len(node.images)),
    )
    return pb.ImageFsInfoResponse(image_filesystems=[usage])
