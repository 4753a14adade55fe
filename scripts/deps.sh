#!/usr/bin/env bash
# Installs the Debian packages that building and the demo need, with --examples also those that the examples and their tests do:
# only those that are missing, and apt is not touched when none is. Further arguments are further packages.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

is_installed() { [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

has() { command -v "$1" >/dev/null; }

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

examples=()
if [ "${1:-}" = --examples ]; then
    shift
    examples=(curl nginx rabbitmq-server chromium python3 python3-psycopg python3-pika libpostgresql-jdbc-java)
    # These may be here from elsewhere.
    { has java && has javac; } || examples+=(default-jdk-headless)
    { has node && has npm; } || examples+=(nodejs npm)
fi

find_major
packages=(
    g++ make cmake patch pkg-config perl
    "postgresql-$major" "postgresql-server-dev-$major" libpqxx-dev
    libgtest-dev "postgresql-$major-pgtap" "postgresql-$major-cron" "postgresql-$major-repack" libtap-parser-sourcehandler-pgtap-perl libipc-run-perl
    pgbouncer python3
    libcli11-dev nlohmann-json3-dev libcpp-httplib-dev bats groff-base
    "${examples[@]}" "$@"
)

# Debian builds extensions for a new server later than the server. What one of them is for is not tested until it is there.
is_not_built() { [[ $1 == postgresql-$major-* ]] && apt-cache show "postgresql-$major" >/dev/null 2>&1 && ! apt-cache show "$1" >/dev/null 2>&1; }

find_missing() {
    local package
    missing=()
    for package in "${packages[@]}"; do
        is_installed "$package" || is_not_built "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || exit 0
}

# Suites that run side by side may ask at the same time, and apt would refuse the second.
find_missing
exec 9<"$(dirname "$0")" && flock 9
find_missing

install=(env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --quiet -o Dpkg::Use-Pty=0 --no-install-recommends)
give_up() {
    echo "deps.sh: $1; run this as root, then try again:" >&2
    echo "    apt-get update && apt-get install --yes --no-install-recommends ${missing[*]}" >&2
    exit 1
}

# Debian starts the services that it installs, now and with the machine. The tests start servers of their own, and nobody asked for
# others: of those that come with this, none is to run.
services=()
for service in nginx rabbitmq-server prometheus prometheus-postgres-exporter; do
    if [[ " ${missing[*]} " == *" $service "* ]]; then services+=("$service"); fi
done
if [[ " ${services[*]} " == *" rabbitmq-server "* ]]; then services+=(epmd); fi

policy=/usr/sbin/policy-rc.d
keep_services_down() {
    if [ ${#services[@]} -eq 0 ] || [ -e $policy ]; then return 0; fi
    trap 'as_root rm -f $policy' EXIT
    trap 'exit 1' INT TERM HUP
    as_root sh -c "cat >$policy && chmod 755 $policy" <<'EOF'
#!/bin/sh
case $1 in
    nginx* | rabbitmq-server* | epmd* | prometheus*) exit 101 ;;
esac
exit 0
EOF
}

disable_services() {
    local service
    for service in "${services[@]}"; do
        if has systemctl; then
            as_root systemctl disable --quiet "$service.service" "$service.socket" >/dev/null 2>&1 || true
            # Where a policy of the machine's own let it start.
            if [ -d /run/systemd/system ]; then as_root systemctl stop "$service.service" "$service.socket" 2>/dev/null || true; fi
        elif [ -e "/etc/init.d/$service" ]; then
            as_root update-rc.d "$service" disable >/dev/null 2>&1 || true
        fi
    done
}

is_root || sudo -n true 2>/dev/null || give_up "packages are missing and this is neither root nor a sudo without password"
echo "installing ${missing[*]}"
update_lists || give_up "apt-get update failed"
keep_services_down || give_up "could not write $policy"
as_root "${install[@]}" "${missing[@]}" </dev/null || give_up "apt-get install failed"
disable_services
