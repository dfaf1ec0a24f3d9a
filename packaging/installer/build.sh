#!/bin/sh
# Builds the installer's image: packaging/installer/build.sh [OUTPUT DIRECTORY, default dist] [amd64 | arm64, default this
# machine's]
#
# An OCI archive of one layer, made without a container engine: below /opt/cri-proxy/RELEASE the program with its pinned
# packages, and a Python with its libraries out of Debian packages of this machine's release, down to the loader. So it runs
# on hosts without any Python and with an older C library. Needs .venv (make dev), apt and patchelf.
set -eu
cd "$(dirname "$0")/../.."
output=${1:-dist}
here=packaging/installer
python=.venv/bin/python
here_is=$(dpkg --print-architecture)
architecture=${2:-$here_is}
case $architecture in
amd64) loader=ld-linux-x86-64.so.2 triple=x86_64-linux-gnu ;;
arm64) loader=ld-linux-aarch64.so.1 triple=aarch64-linux-gnu ;;
*) echo "installer: there are packages for amd64 and arm64 only, not for $architecture" >&2 && exit 1 ;;
esac
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y pyproject.toml)}
export SOURCE_DATE_EPOCH

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
umask 022
mkdir -p "$output"
packaging/node/build.sh "$tree/node" "$architecture"

# Its own Python: resolved as on a machine on which nothing is installed.
minor=$(apt-cache depends python3 | sed -n "s/^ *Depends: \(python3\.[0-9]*\)$/\1/p")
mkdir -p "$tree/archives/partial" "$tree/lists/partial"
: >"$tree/status"
set -- -q -q -y -o APT::Sandbox::User=root -o Debug::NoLocking=1 -o Acquire::Retries=3 -o APT::Install-Recommends=false \
    -o "Dir::State::status=$tree/status" -o "Dir::Cache::archives=$tree/archives"
if [ "$architecture" != "$here_is" ]; then # this machine's lists have its own packages alone
    set -- "$@" -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture" -o "Dir::State::lists=$tree/lists" \
        -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache="
    apt-get "$@" update >"$tree/log" 2>&1 || { cat "$tree/log" >&2 && exit 1; }
fi
# shellcheck disable=SC2046 # one word per package
apt-get "$@" --download-only install $(sed -n "s/PYTHON/$minor/; /^#/!p" $here/packages) >"$tree/log" 2>&1 ||
    { cat "$tree/log" >&2 && exit 1; }
mkdir "$tree/debian"
for package in "$tree"/archives/*.deb; do
    # Directories that are links elsewhere (/lib) are merged.
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$tree/debian"
done

release=$("$python" packaging/node/release.py)
root=/opt/cri-proxy/$release
inside=$tree/layer$root
mkdir -p "$inside/bin" "$inside/lib" "$inside/host" "$inside/share"
cp "$tree/debian/usr/bin/$minor" "$inside/bin/$minor"
ln -s "$minor" "$inside/bin/python3"
cp -r "$tree/debian/usr/lib/$minor" "$inside/lib/$minor"
for directory in lib lib64 usr/lib; do
    for place in "$tree/debian/$directory" "$tree/debian/$directory/$triple"; do
        find "$place" -maxdepth 1 -name '*.so*' -exec cp -P {} "$inside/lib" \; 2>/dev/null || true
    done
done
# The loader may be a link to elsewhere.
[ -f "$inside/lib/$loader" ] && [ ! -L "$inside/lib/$loader" ] ||
    cp -L --remove-destination "$(find "$tree/debian" -name "$loader" -type f | head -1)" "$inside/lib/$loader"
(cd "$inside/lib/$minor" && rm -rf test idlelib ensurepip lib2to3 tkinter turtledemo pydoc_data distutils/command EXTERNALLY-MANAGED \
    config-* lib-dynload/_tkinter* lib-dynload/_curses* lib-dynload/readline* lib-dynload/_dbm* lib-dynload/_gdbm*)
patchelf --set-interpreter "$root/lib/$loader" --force-rpath --set-rpath "$root/lib" "$inside/bin/$minor"

# The program: of its compiled parts those of this Python.
cp -r "$tree/node/usr/lib/cri-proxy" "$inside/lib/cri-proxy"
tag=cpython-$(echo "$minor" | tr -d 'a-z.')
find "$inside/lib/cri-proxy" -name '*.cpython-*.so' ! -name "*.$tag-*" -delete
sed "s,/usr/lib/cri-proxy,$root/lib/cri-proxy," packaging/node/program.py >"$inside/lib/cri-proxy/cri-proxy"
printf '#!/bin/sh\nexec %s/bin/python3 -IS %s/lib/cri-proxy/cri-proxy "$@"\n' "$root" "$root" >"$inside/bin/cri-proxy"
chmod 755 "$inside/bin/cri-proxy"

# What hosts get of it, and who wrote the rest.
sed 's,^ExecStart=/usr/bin/cri-proxy run --config \(\S*\),ExecStart=/opt/cri-proxy/current/bin/cri-proxy run --config \1@OPTIONS@,' \
    packaging/cri-proxy.service >"$inside/host/cri-proxy.service"
cp $here/host/* packaging/cri-proxy.yaml "$inside/host"
cp "$tree/node/usr/share/doc/cri-proxy/sbom.cdx.json" "$inside/share"
for package in "$tree"/archives/*.deb; do
    dpkg-deb --show --showformat='${Package} ${Version}\n' "$package"
done >"$inside/share/debian-packages"
(cd "$tree/debian/usr/share/doc" && for file in */copyright; do install -D -m 644 "$file" "$inside/share/doc/$file"; done)

# Compiled by the Python that runs it, by way of its loader: its own path is not there yet. For another architecture by one
# of the same version, whose code is the same.
run="$inside/lib/$loader --library-path $inside/lib $inside/bin/$minor"
if [ "$architecture" != "$here_is" ]; then
    run=$(command -v "/usr/bin/$minor" || echo "$python")
    [ "$($run -c 'import sys; print("python%d.%d" % sys.version_info[:2])')" = "$minor" ] || {
        echo "installer: $minor is needed to compile for $architecture: apt install $minor-minimal" >&2 && exit 1
    }
fi
$run -IS -m compileall -q --invalidation-mode unchecked-hash -s "$tree/layer" -p / "$inside/lib/$minor" || true
PYTHONNODEBUGRANGES=1 $run -IS "$inside/lib/cri-proxy/compile.py" "$inside/lib/cri-proxy" "$tree/layer"
chmod -R u=rwX,go=rX "$tree/layer"

archive=$output/cri-proxy-installer_${release}_$architecture.oci.tar
"$python" $here/oci.py "$tree/layer" "$archive" --architecture "$architecture" --name "cri-proxy-installer:$(
    "$python" -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["version"])'
)" -- "$root/bin/python3" -IS "$root/lib/cri-proxy/cri-proxy"
echo "installer: $archive is built; copy it to a registry of yours, or bring it to each node:"
echo "installer:     ctr --namespace k8s.io images import $archive"
