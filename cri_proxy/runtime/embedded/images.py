"""CRI methods of the embedded runtime: list, pull, remove images. Every pull succeeds; nothing is downloaded."""

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.http2.status import Code
from cri_proxy.runtime.embedded.state import Image, NodeState, RefusedCall, full_reference

_MOUNTPOINT = "/var/lib/embedded/images"


def _shown(image: Image) -> pb.Image:
    return pb.Image(id=image.id, repo_tags=[image.reference], repo_digests=[image.repo_digest], size=image.size_bytes)


def list_images(node: NodeState, request: pb.ListImagesRequest) -> pb.ListImagesResponse:
    """Return the images, or the one that the filter names."""
    wanted = request.filter.image.image
    found = (node.image(wanted),) if wanted else node.images.values()
    return pb.ListImagesResponse(images=[_shown(image) for image in found if image])


def image_status(node: NodeState, request: pb.ImageStatusRequest) -> pb.ImageStatusResponse:
    """Return the image; an empty answer when it is not there."""
    image = node.image(request.image.image)
    return pb.ImageStatusResponse(image=_shown(image) if image else None)


def pull_image(node: NodeState, request: pb.PullImageRequest) -> pb.PullImageResponse:
    """Add the image; its digest follows from its name."""
    reference = request.image.image
    if not reference:
        raise RefusedCall(Code.UNKNOWN, f'failed to parse image reference "{reference}": invalid reference format')
    image = node.images.setdefault(full_reference(reference), Image.named(reference))
    return pb.PullImageResponse(image_ref=image.id)


def remove_image(node: NodeState, request: pb.RemoveImageRequest) -> pb.RemoveImageResponse:
    """Remove the image; an unknown one is no error."""
    image = node.image(request.image.image)
    if image:
        del node.images[image.reference]
    return pb.RemoveImageResponse()


def image_fs_info(node: NodeState, request: pb.ImageFsInfoRequest) -> pb.ImageFsInfoResponse:
    """Return the sum of the images' sizes."""
    usage = pb.FilesystemUsage(
        timestamp=node.now_ns(),
        fs_id=pb.FilesystemIdentifier(mountpoint=_MOUNTPOINT),
        used_bytes=pb.UInt64Value(value=sum(i.size_bytes for i in node.images.values())),
        inodes_used=pb.UInt64Value(value=len(node.images)),
    )
    return pb.ImageFsInfoResponse(image_filesystems=[usage])
