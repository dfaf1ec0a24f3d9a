#!/bin/sh
# Makes .venv and puts the pinned packages and this project into it.
#
#   packaging/setup/venv.sh run    what the daemon needs
#   packaging/setup/venv.sh dev    that, and what the checks and tests need
#
# Quick when all is there: a stamp in .venv says what was installed. Needs Python 3.11 or later with venv;
# as root on a Debian machine a missing one is installed.
set -eu
cd "$(dirname "$0")/../.."
. packaging/setup/apt.sh

kind=${1:?usage: venv.sh run|dev}
requirements=packaging/requirements/$kind.txt
venv=.venv

# Prints the first complete Python >= 3.11. A Python built without the modules that we need (seen with
# self-compiled ones) and Debian's without python3-venv (no ensurepip) are passed over.
find_python() {
    for name in python3 python3.11 python3.12 python3.13 /usr/bin/python3; do
        if "$name" -c 'import sys, venv, ensurepip, ssl, sqlite3, lzma, bz2; sys.exit(sys.version_info < (3, 11))' \
            >/dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
    return 1
}

# What the environment is made from; another checkout path counts, because the project is installed in place.
wanted_stamp() {
    { cat "packaging/requirements/$1.txt" pyproject.toml; pwd; } | cksum
}

is_installed() {
    [ -x "$venv/bin/python" ] && "$venv/bin/python" -c '' 2>/dev/null &&
        [ "$(cat "$venv/installed-$1" 2>/dev/null)" = "$(wanted_stamp "$1")" ]
}

if is_installed "$kind" || { [ "$kind" = run ] && is_installed dev; }; then
    exit 0
fi

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    if ! python=$(find_python); then
        apt_install python3 python3-venv || true
        if ! python=$(find_python); then
            echo "Python 3.11 or later with the venv module is needed." >&2
            echo "Debian: as root, 'apt-get install python3 python3-venv', then run this again." >&2
            exit 1
        fi
    fi
    say "making $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

say "installing the pinned packages of $requirements into $venv"
rm -f "$venv"/installed-*
persistently "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
# In place, without a build environment of its own: the pinned setuptools is in .venv already.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
wanted_stamp "$kind" >"$venv/installed-$kind"
