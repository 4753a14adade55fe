#!/usr/bin/env bash
# Installs the Debian packages that building, testing and the demo need: only those that are missing, and apt is not
# touched when none is. Arguments are further packages.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

is_installed() { [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

update_lists() {
    [ -z "${lists_are_fresh:-}" ] || return 0
    as_root apt-get update --quiet --quiet && lists_are_fresh=1
}

# Sets `major`, the server to build for: the one whose headers are here, else the one that is installed, else this
# Debian's own.
find_major() {
    if [ -e "$("$PG_CONFIG" --pgxs 2>/dev/null)" ]; then
        major=$("$PG_CONFIG" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
    elif compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; then
        major=$(printf '%s\n' /usr/lib/postgresql/*/bin/postgres | cut -d/ -f5 | sort -n | tail -n 1)
    elif grep -qs '^VERSION_ID="12"' /etc/os-release; then
        major=15
    else
        update_lists || true
        major=$(apt-cache depends postgresql | sed -n 's/.*Depends: postgresql-\([0-9]*\)$/\1/p' | head -n 1) || true
    fi
    [ -n "$major" ] || {
        echo "deps.sh: no package lists; run \`apt-get update\` as root, then try again" >&2
        exit 1
    }
}

command -v dpkg-query >/dev/null || {
    echo "deps.sh: this is not Debian; needed are a PostgreSQL server with its headers and pgTAP, pg_prove, Perl's IPC::Run," \
        "libpqxx, GoogleTest, CLI11, nlohmann-json, cpp-httplib, bats, groff, CMake, pkg-config, make and a C++20 compiler" >&2
    exit 1
}

find_major
packages=(
    g++ make cmake pkg-config perl
    "postgresql-$major" "postgresql-server-dev-$major" libpqxx-dev
    libgtest-dev "postgresql-$major-pgtap" "postgresql-$major-cron" libtap-parser-sourcehandler-pgtap-perl libipc-run-perl
    pgbouncer
    libcli11-dev nlohmann-json3-dev libcpp-httplib-dev bats groff-base
    "$@"
)

missing=()
for package in "${packages[@]}"; do
    is_installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

install=(env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --quiet -o Dpkg::Use-Pty=0 --no-install-recommends)
give_up() {
    echo "deps.sh: $1; run this as root, then try again:" >&2
    echo "    apt-get update && apt-get install --yes --no-install-recommends ${missing[*]}" >&2
    exit 1
}

is_root || sudo -n true 2>/dev/null || give_up "packages are missing and this is neither root nor a sudo without password"
echo "installing ${missing[*]}"
update_lists || give_up "apt-get update failed"
as_root "${install[@]}" "${missing[@]}" </dev/null || give_up "apt-get install failed"
