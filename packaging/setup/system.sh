#!/bin/sh
# Installs the programs of the system that are missing, where that is possible: as root, by apt.
#
#   packaging/setup/system.sh run     a container runtime and what its image is made of
#   packaging/setup/system.sh test    that, what boots emulated machines and systemd, clients that tests call with, a browser
#
# A program that stays missing is named and is no failure here: `make run` goes on with the embedded runtime, and
# a test that needs the program says so (in CI that is a failure).
set -eu
cd "$(dirname "$0")/../.."
. packaging/setup/apt.sh

kind=${1:?usage: system.sh run|test}
PATH=$PATH:/usr/sbin:/sbin # a plain user's PATH may lack the daemons and the disk tools

missing=
# Programs are looked for, not packages: a containerd of another origin is as good.
need() {
    command -v "$1" >/dev/null 2>&1 && return
    case " $missing " in *" $2 "*) ;; *) missing="$missing $2" ;; esac
}

# The image holds nothing but busybox, so that must need no libraries; Debian's plain busybox does.
need_static_busybox() {
    if ! program=$(command -v busybox) || ldd "$program" >/dev/null 2>&1; then
        missing="$missing busybox-static"
    fi
}

need containerd containerd
need ctr containerd
need runc runc
need_static_busybox
if [ "$kind" = test ]; then
    need qemu-system-x86_64 qemu-system-x86
    need mkfs.ext4 e2fsprogs
    need systemd-analyze systemd
    need nsenter util-linux
    need curl curl
    need mmdebstrap mmdebstrap
    need lintian lintian
    need rpmbuild rpm
    need promtool prometheus
    need openssl openssl
    need chromium chromium
    need zsh zsh
    need fish fish
    need patchelf patchelf
fi

if [ -n "$missing" ]; then
    # shellcheck disable=SC2086 # one word per package
    apt_install $missing || say "going on without"
fi
