# Sourced by the setup scripts: saying what happens, and installing Debian packages. POSIX sh.

say() {
    printf ':: %s\n' "$*"
}

can_apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1
}

# Installs the named Debian packages and nothing else. Fails, saying so, without root or without apt.
apt_install() {
    if ! can_apt; then
        say "not installed, because that needs root and apt: $*"
        return 1
    fi
    say "installing Debian packages: $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -q -q -o Acquire::Retries=3 update &&
        apt-get -q -q -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
            install --no-install-recommends "$@"
}
