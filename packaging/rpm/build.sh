#!/bin/sh
# Builds the rpm package: packaging/rpm/build.sh [OUTPUT DIRECTORY, default dist] [amd64 | arm64, default this machine's]
#
# The same files as in the Debian package (packaging/node/build.sh). Needs .venv (make dev) and rpmbuild.
set -eu
cd "$(dirname "$0")/../.."
output=${1:-dist}
architecture=${2:-$(uname -m)}
python=.venv/bin/python
case $architecture in
amd64 | x86_64) architecture=amd64 target=x86_64 ;;
arm64 | aarch64) architecture=arm64 target=aarch64 ;;
*) echo "rpm: the packages have compiled parts for amd64 and arm64 only, not for $architecture" >&2 && exit 1 ;;
esac

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
umask 022
mkdir -p "$tree/files" "$output"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y pyproject.toml)}
export SOURCE_DATE_EPOCH
packaging/node/build.sh "$tree/files" "$architecture"
install -D -m 644 "$tree/files/usr/lib/cri-proxy/Apache-2.0" "$tree/files/usr/share/licenses/cri-proxy/Apache-2.0"
rm "$tree/files/usr/lib/cri-proxy/Apache-2.0"
rm -r "$tree/files/usr/share/zsh/vendor-completions" # the zsh of Fedora and SUSE looks in site-functions

full=$("$python" packaging/node/release.py)
rpmbuild -bb --quiet --target "$target" --define "_topdir $tree/rpm" --define "laid_out $tree/files" \
    --define "package_version ${full%-*}" --define "package_release ${full##*-}" \
    packaging/rpm/cri-proxy.spec
cp "$tree/rpm/RPMS/$target/"*.rpm "$output"
