#!/bin/sh
# Builds the Debian package: packaging/deb/build.sh [OUTPUT DIRECTORY, default dist] [amd64 | arm64, default this machine's]
#
# One package for every Python that packaging/node/build.sh lays out; the same sources give the same package. Needs .venv
# (make dev) and dpkg-deb.
set -eu
cd "$(dirname "$0")/../.."
output=${1:-dist}
architecture=${2:-$(dpkg --print-architecture)}
here=packaging/deb
python=.venv/bin/python

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
root=$tree/root
umask 022
mkdir -p "$root" "$output"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y pyproject.toml)}
export SOURCE_DATE_EPOCH
packaging/node/build.sh "$root" "$architecture"

version=$("$python" packaging/node/release.py)
maintainer=$(sed -n 's/^Maintainer: //p' $here/control)
doc=$root/usr/share/doc/cri-proxy
install -m 644 $here/copyright "$doc/copyright"
rm "$doc/LICENSE" # copyright says it
rm -r "$root/usr/share/zsh/site-functions" # Debian's zsh looks in vendor-completions
mv "$root/usr/lib/cri-proxy/Apache-2.0" "$tree" # Debian has the text in one place, which copyright names
printf 'cri-proxy (%s) unstable; urgency=medium\n\n  * See changelog.md beside this file.\n\n -- %s  %s\n' \
    "$version" "$maintainer" "$(LC_ALL=C date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")" |
    gzip -9n >"$doc/changelog.Debian.gz"
install -D -m 644 $here/lintian-overrides "$root/usr/share/lintian/overrides/cri-proxy"

control=$root/DEBIAN
mkdir "$control"
for script in postinst prerm postrm; do install -m 755 "$here/$script" "$control/$script"; done
install -m 644 $here/triggers "$control/triggers"
printf '%s\n' /etc/default/cri-proxy /etc/cri-proxy/cri-proxy.yaml >"$control/conffiles"
(cd "$root" && find usr etc -type f ! -path 'etc/*' -print0 | sort -z | xargs -0 md5sum) >"$control/md5sums"
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" \
    -e "s/@SIZE@/$(du -sk "$root" | cut -f1)/" $here/control >"$control/control"

find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
cp "$doc/sbom.cdx.json" "$output/cri-proxy_${version}_${architecture}.sbom.cdx.json"
dpkg-deb --root-owner-group -Zxz -z3 --build "$root" "$output/cri-proxy_${version}_${architecture}.deb"
