#!/bin/sh
# Builds the Debian package: packaging/deb/build.sh [OUTPUT DIRECTORY, default dist]
#
# The program and its pinned packages (hashes checked) go into /usr/lib/cri-proxy, found by /usr/bin/cri-proxy alone:
# nothing of the system's Python packages is used or disturbed. Compiled parts fit one Python version, which the
# package therefore depends on. Needs .venv (make dev) and dpkg-deb.
set -eu
cd "$(dirname "$0")/../.."
output=${1:-dist}
here=packaging/deb
python=.venv/bin/python
pip="$python -m pip --quiet --disable-pip-version-check"

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
root=$tree/root
lib=$root/usr/lib/cri-proxy
umask 022
mkdir -p "$lib" "$output"

version=$("$python" -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["version"])')
minor=$("$python" -c 'import sys; print(sys.version_info.minor)')
architecture=$(dpkg --print-architecture)
# The same sources give the same package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y pyproject.toml)}
export SOURCE_DATE_EPOCH

$pip install --require-hashes --no-compile --target "$lib" -r packaging/requirements/run.txt
rm -rf "$lib/bin" # two of its entries would clash
mkdir "$tree/source"
cp -r sysfs policies cri_proxy pyproject.toml README.md "$tree/source"
$pip wheel --no-deps --no-build-isolation --wheel-dir "$tree/wheel" "$tree/source"
$pip install --no-deps --no-compile --target "$lib" "$tree"/wheel/*.whl
# What builds packages, and what only other tools read, stays behind.
rm -rf "$lib/bin" "$lib"/setuptools* "$lib/pkg_resources" "$lib/_distutils_hack" "$lib/distutils-precedence.pth"
# The stubs of our own packages stay: a door (policies/lazy_import.py) loads the names of its stub.
find "$lib" \( -name '*.pyi' ! -path "$lib/policies/*" -o -name '*.pyx' -o -name '*.c' -o -name __pycache__ \) -prune -exec rm -rf {} +
install -d "$root/usr/share/doc/cri-proxy"
"$python" $here/sbom.py "$lib" cri-proxy >"$root/usr/share/doc/cri-proxy/sbom.cdx.json"
# What pip notes for itself, this machine's paths among it.
rm -f "$lib"/*.dist-info/RECORD "$lib"/*.dist-info/INSTALLER "$lib"/*.dist-info/REQUESTED "$lib"/*.dist-info/direct_url.json
PYTHONNODEBUGRANGES=1 "$python" $here/compile.py "$lib" "$root"

install -D -m 755 $here/cri-proxy "$root/usr/bin/cri-proxy"
install -D -m 644 packaging/cri-proxy.service "$root/lib/systemd/system/cri-proxy.service"
install -D -m 644 packaging/cri-proxy-device-plugin.service "$root/lib/systemd/system/cri-proxy-device-plugin.service"
install -D -m 644 packaging/cri-proxy.socket "$root/lib/systemd/system/cri-proxy.socket"
install -D -m 644 packaging/cri-proxy.tmpfiles "$root/usr/lib/tmpfiles.d/cri-proxy.conf"
install -D -m 644 packaging/cri-proxy.default "$root/etc/default/cri-proxy"
install -D -m 644 packaging/cri-proxy.yaml "$root/etc/cri-proxy/cri-proxy.yaml"
# For the operator to install: that the kubelet uses the proxy is never an installation's step. Minimal images leave
# out /usr/share/doc.
install -D -m 644 packaging/kubelet.service.d/10-cri-proxy.conf "$lib/kubelet.service.d/10-cri-proxy.conf"
# As in the sources, so that links from page to page lead somewhere.
doc=$root/usr/share/doc/cri-proxy
cp -r docs/. "$doc"
mkdir -p "$doc/examples"
cp -r configs packaging/monitoring packaging/kubernetes "$doc/examples"
chmod -R u=rwX,go=rX "$doc" # a checkout has the modes that its umask left

control=$root/DEBIAN
mkdir "$control"
for script in postinst prerm postrm; do install -m 755 "$here/$script" "$control/$script"; done
printf '%s\n' /etc/default/cri-proxy /etc/cri-proxy/cri-proxy.yaml >"$control/conffiles"
(cd "$root" && find usr lib etc -type f ! -path 'etc/*' -print0 | sort -z | xargs -0 md5sum) >"$control/md5sums"
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@MINOR@/$minor/" \
    -e "s/@NEXT@/$((minor + 1))/" -e "s/@SIZE@/$(du -sk "$root" | cut -f1)/" $here/control >"$control/control"

find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
cp "$doc/sbom.cdx.json" "$output/cri-proxy_${version}_${architecture}.sbom.cdx.json"
dpkg-deb --root-owner-group -Zxz --build "$root" "$output/cri-proxy_${version}_${architecture}.deb"
