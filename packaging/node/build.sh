#!/bin/sh
# Lays out what a node gets, for packages and images: packaging/node/build.sh DIRECTORY ARCHITECTURE (amd64 or arm64)
#
# The program and its pinned packages (hashes checked) go into /usr/lib/cri-proxy, found by /usr/bin/cri-proxy alone:
# nothing of the system's Python packages is used or disturbed. Compiled parts of each Python lie side by side; for one
# architecture this can be built on another. Nothing is byte-compiled yet: that is for the Python of the node. Needs .venv
# (make dev).
set -eu
cd "$(dirname "$0")/../.."
root=${1:?usage: build.sh DIRECTORY ARCHITECTURE}
case ${2:?usage: build.sh DIRECTORY ARCHITECTURE} in
amd64) machine=x86_64 ;;
arm64) machine=aarch64 ;;
*) echo "build: the packages have compiled parts for amd64 and arm64 only, not for $2" >&2 && exit 1 ;;
esac
here=packaging/node
python=.venv/bin/python
pip="$python -m pip --quiet --disable-pip-version-check"
lib=$root/usr/lib/cri-proxy
umask 022

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$lib"
for minor in 11 12 13 14; do
    $pip download --require-hashes --no-deps --only-binary :all: --python-version "3.$minor" --dest "$tree/wheels" \
        --platform "manylinux_2_28_$machine" --platform "manylinux_2_17_$machine" --platform "manylinux2014_$machine" \
        -r packaging/requirements/run.txt
done
mkdir "$tree/source"
cp -r sysfs policies cri_proxy pyproject.toml README.md LICENSE "$tree/source"
commit=$(git rev-parse --short=12 HEAD 2>/dev/null || true)
sed -i "s/^COMMIT: Final = \"\"/COMMIT: Final = \"$commit\"/" "$tree/source/cri_proxy/version.py"
$pip wheel --no-deps --no-build-isolation --wheel-dir "$tree/wheels" "$tree/source"
"$python" $here/wheels.py "$lib" "$tree"/wheels/*.whl
# The stubs of our own packages: a door (policies/lazy_import.py) loads the names of its stub.
for stub in $(find policies -name '*.pyi'); do install -m 644 "$stub" "$lib/$stub"; done
install -m 644 $here/compile.py "$lib/compile.py"
install -m 644 $here/program.py "$lib/cri-proxy"
install -D -m 755 $here/cri-proxy "$root/usr/bin/cri-proxy"

"$python" $here/man_pages.py "$root" # and the completion scripts

doc=$root/usr/share/doc/cri-proxy
mkdir -p "$doc/examples"
# As in the sources, so that links from page to page lead somewhere.
cp -r docs/. "$doc"
cp -r configs packaging/monitoring packaging/kubernetes "$doc/examples"
install -D -m 644 packaging/selinux/refpolicy.cil "$doc/examples/selinux/refpolicy.cil"
cp LICENSE "$doc"
"$python" $here/sbom.py "$lib" cri-proxy >"$doc/sbom.cdx.json"
# Where the system has no common licences: the same text, as a package brings it.
licence=/usr/share/common-licenses/Apache-2.0
[ -e $licence ] || licence=$(echo "$lib"/structlog-*.dist-info/licenses/LICENSE-APACHE)
install -D -m 644 "$licence" "$lib/Apache-2.0"

for unit in cri-proxy.service cri-proxy.socket cri-proxy-device-plugin.service cri-proxy-exporter.service; do
    install -D -m 644 "packaging/$unit" "$root/usr/lib/systemd/system/$unit"
done
install -D -m 644 packaging/cri-proxy.tmpfiles "$root/usr/lib/tmpfiles.d/cri-proxy.conf"
install -D -m 644 packaging/cri-proxy.default "$root/etc/default/cri-proxy"
install -D -m 644 packaging/cri-proxy.yaml "$root/etc/cri-proxy/cri-proxy.yaml"
# For the operator to install: that the kubelet uses the proxy is never an installation's step. Minimal images leave
# out /usr/share/doc.
install -D -m 644 packaging/kubelet.service.d/10-cri-proxy.conf "$lib/kubelet.service.d/10-cri-proxy.conf"
chmod -R u=rwX,go=rX "$root/usr/share" "$lib" # a checkout has the modes that its umask left
