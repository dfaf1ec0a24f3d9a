#!/bin/sh
# Pins the dependencies of pyproject.toml (and what builds the package) with hashes: run.txt and dev.txt.
# The pinning tool lives in an environment of its own, so that it is no dependency of ours.
set -eu
cd "$(dirname "$0")/../.."

folder=packaging/requirements
tool=.cache/pin
[ -x "$tool/bin/pip-compile" ] || {
    .venv/bin/python -m venv "$tool"
    "$tool/bin/pip" install --quiet pip-tools
}

# pin NAME OPTION...: option lines, which would name the maker's registry, are left out.
pin() {
    name=$1
    shift
    "$tool/bin/pip-compile" --quiet --no-header --no-annotate --allow-unsafe --strip-extras --generate-hashes "$@" \
        --output-file "$tool/$name.txt" pyproject.toml "$folder/build.in"
    {
        # shellcheck disable=SC2016 # the backquotes are text
        echo '# Pinned with hashes for Python 3.11 and later; made by `make pins` from pyproject.toml and build.in.'
        grep -v '^ *#\|^$\|^--' "$tool/$name.txt"
    } >"$folder/$name.txt"
}

rm -f "$tool"/*.txt # an older output would be taken as wishes
pin run
pin dev --extra dev
