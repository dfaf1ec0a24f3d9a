#!/bin/sh
# Builds the image of the config agent: packaging/image/build.sh [DIRECTORY with our Debian package, default dist]
#
# Takes the program and its pinned packages out of the package and lays them out, with the Dockerfile, in DIRECTORY/image.
# Then docker, podman or buildah makes the image of it; where none of them works that directory can be taken to a machine
# that has one. CRI_PROXY_BUILDER names the one to use. Needs .venv (make dev), and the package (make deb).
set -eu
cd "$(dirname "$0")/../.."
directory=${1:-dist}
python=.venv/bin/python

version=$("$python" -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["version"])')
package=$directory/cri-proxy_$("$python" packaging/node/release.py)_$(dpkg --print-architecture).deb
image=cri-proxy:$version
context=$directory/image
if [ ! -e "$package" ]; then
    echo "image: there is no $package: build it with \`make deb\`" >&2
    exit 1
fi

# A digest, as a tag may stand for another image tomorrow.
base=$(sed -n "s/^\(python:.*\) \(sha256:[0-9a-f]*\)$/\1@\2/p" packaging/image/base)

umask 022
rm -rf "$context"
mkdir -p "$context/root/usr/lib" "$context/root/usr/bin"
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
dpkg-deb --extract "$package" "$unpacked"
mv "$unpacked/usr/lib/cri-proxy" "$context/root/usr/lib/cri-proxy"
# The base image's Python is not where Debian's is.
sed 's,/usr/bin/python3,/usr/local/bin/python3,; s,"/usr/bin/$name","/usr/local/bin/$name",g' \
    "$unpacked/usr/bin/cri-proxy" >"$context/root/usr/bin/cri-proxy"
chmod 755 "$context/root/usr/bin/cri-proxy"
# The licence, where the package leaves it to the system.
[ -e "$context/root/usr/lib/cri-proxy/Apache-2.0" ] ||
    install -m 644 /usr/share/common-licenses/Apache-2.0 "$context/root/usr/lib/cri-proxy/Apache-2.0"
# What is in the image beside its base.
install -D -m 644 "$unpacked/usr/share/doc/cri-proxy/sbom.cdx.json" "$context/root/usr/share/doc/cri-proxy/sbom.cdx.json"
sed "s,^ARG BASE\$,ARG BASE=$base," packaging/image/Dockerfile >"$context/Dockerfile"

# Prints the first that can build: a docker whose daemon does not run cannot.
find_builder() {
    for name in ${CRI_PROXY_BUILDER:-docker podman buildah}; do
        if "$name" info >/dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
    return 1
}

if ! builder=$(find_builder); then
    echo "image: none of ${CRI_PROXY_BUILDER:-docker, podman and buildah} works here. On a machine where one does:" >&2
    echo "image:     docker build --tag $image $context" >&2
    exit 1
fi
"$builder" build --tag "$image" "$context"
echo "image: $image is built; push it to a registry of yours, or bring it to each node:"
if [ "$(basename "$builder")" = buildah ]; then
    echo "image:     buildah push $image docker-archive:/dev/stdout:$image | ctr --namespace k8s.io images import -"
else
    echo "image:     $builder save $image | ctr --namespace k8s.io images import -"
fi
