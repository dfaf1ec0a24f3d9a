# Sourced by the setup scripts: saying what happens, and installing Debian packages. POSIX sh.

say() {
    printf ':: %s\n' "$*"
}

can_apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1
}

apt() {
    apt-get -q -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}

# Installs the named Debian packages and what they cannot do without. What apt has to say is shown if it fails.
# Fails, saying so, without root or without apt.
apt_install() {
    if ! can_apt; then
        say "not installed, because that needs root and apt: $*"
        return 1
    fi
    say "installing Debian packages: $*"
    log=$(mktemp)
    export DEBIAN_FRONTEND=noninteractive
    if { apt update && apt install --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null; then
        rm -f "$log"
        return 0
    fi
    cat "$log" >&2
    rm -f "$log"
    return 1
}
