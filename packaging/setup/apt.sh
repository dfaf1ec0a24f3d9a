# Sourced by the setup scripts: saying what happens, trying again, and installing Debian packages. POSIX sh.

say() {
    printf ':: %s\n' "$*"
}

# Runs a command, up to three times: of hundreds of downloads one fails now and then.
persistently() {
    for pause_seconds in 5 30; do
        "$@" && return 0
        say "failed, once more in $pause_seconds seconds: $*"
        sleep "$pause_seconds"
    done
    "$@"
}

can_apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1
}

apt() {
    apt-get -q -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}

# For dpkg's lock apt waits as long as it is told; where another apt holds that of the lists, it fails at once.
update_and_install() {
    apt update && apt install --no-install-recommends "$@"
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
    if persistently update_and_install "$@" >"$log" 2>&1 </dev/null; then
        rm -f "$log"
        return 0
    fi
    cat "$log" >&2
    rm -f "$log"
    return 1
}
