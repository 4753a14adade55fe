#!/usr/bin/env bash
# What container images of idem hold, and a test of it without a container engine.
#
#   images.sh layout DIRECTORY [FROM]   the files of an image volume (CloudNativePG): DIRECTORY/share/extension and DIRECTORY/lib. FROM is a
#                                       package, postgresql-18-idem_….deb, or the DESTDIR of a `make install`; without it, the package in
#                                       build/packages/forky
#   images.sh check                     what container/Containerfile does, in a root directory, and a server that has the layout mounted
#                                       and nothing else of idem; needs root and `make deb SUITE=forky`. TAP
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
source scripts/roots.sh
source scripts/tap.sh

home=${IDEM_PACKAGES:-/var/cache/idem-packages}
suite=forky
major=18
packages=$PWD/build/packages/$suite

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

package_of_extension() {
    local found=("$packages/postgresql-$major-idem"_*.deb)
    [ -e "${found[0]}" ] || die "there is no package in build/packages/$suite; \`make deb SUITE=$suite\` makes it"
    echo "${found[0]}"
}

# layout DIRECTORY FROM
layout() {
    local to=$1 from=$2 unpacked=
    if [ -f "$from" ]; then
        unpacked=$(mktemp -d)
        dpkg-deb --extract "$from" "$unpacked" || return
        from=$unpacked
    fi
    rm -rf "${to:?}/share" "${to:?}/lib" && mkdir -p "$to/share/extension" "$to/lib" &&
        cp "$from/usr/share/postgresql/$major/extension"/idem* "$to/share/extension" &&
        cp "$from/usr/lib/postgresql/$major/lib/idem.so" "$to/lib" && chmod -R a+rX "$to" || return
    if [ -n "$unpacked" ]; then rm -rf "$unpacked"; fi
}

# --- The image -----------------------------------------------------------------------------------------------------------

image_environment=(LANG=C.UTF-8 PGDATA="/var/lib/postgresql/$major/main")

# COPY and RUN of container/Containerfile.
build_image() {
    local root=$home/$suite.image
    copy_root "$suite" image && mkdir "$root/packages" && cp "$packages"/*.deb "$root/packages" &&
        cp container/install.sh container/entrypoint.sh "$root/usr/local/bin" &&
        enter "$suite.image" env "${image_environment[@]}" install.sh
}

# The test waits in the same processes, for they end with `enter`.
run_image() { enter "$suite.image" env "${image_environment[@]}" bash -c "$(declare -f in_image); in_image"; }

# Two starts: the second finds the cluster of the first.
in_image() {
    set -euo pipefail
    local start server found
    as_postgres() { runuser --user postgres -- "$@"; }
    ask() { PGPASSWORD=secret psql --no-psqlrc --quiet --no-align --tuples-only --host=127.0.0.1 --username=postgres --dbname=shop --command="$1"; }
    ! as_postgres entrypoint.sh # there is no password
    for start in first second; do
        as_postgres env POSTGRES_PASSWORD=secret entrypoint.sh &
        server=$!
        for _ in $(seq 600); do
            if found=$(ask "SELECT outcome FROM idem_execute('pay-7f3a', 'SELECT 25')" 2>/dev/null); then break; fi
            sleep 0.1
        done
        echo "$start start: $found"
        if [ "$start" = first ]; then [ "$found" = acquired ]; else [ "$found" = completed ]; fi
        [ "$(ask "SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'idem launcher'")" = t ]
        [ -z "$(ask "SELECT check_name, detail FROM idem_health() WHERE level NOT IN ('ok', 'notice')")" ]
        idem --version
        kill -INT "$server"
        kill -INT "$(head -n 1 "$PGDATA/postmaster.pid")" 2>/dev/null || true
        wait "$server" || true
    done
}

# --- The image volume ----------------------------------------------------------------------------------------------------

build_volume() {
    copy_root "$suite" volume && apt_in "$suite.volume" install "postgresql-$major" &&
        layout "$home/$suite.volume/extensions/idem" "$(package_of_extension)" && find "$home/$suite.volume/extensions"
}

run_volume() { enter "$suite.volume" env PGDATA=/tmp/cluster bash -c "$(declare -f in_volume); in_volume"; }

in_volume() {
    set -euo pipefail
    local bin=/usr/lib/postgresql/18/bin
    as_postgres() { runuser --user postgres -- "$@"; }
    ask() { as_postgres psql --no-psqlrc --quiet --no-align --tuples-only --host=/tmp --dbname=postgres --command="$1"; }
    [ -z "$(find /usr -name 'idem*')" ]
    as_postgres "$bin/initdb" --pgdata="$PGDATA" --no-sync >/dev/null
    cat >>"$PGDATA/postgresql.conf" <<'SETTINGS'
listen_addresses = ''
unix_socket_directories = '/tmp'
extension_control_path = '$system:/extensions/idem/share'
dynamic_library_path = '$libdir:/extensions/idem/lib'
shared_preload_libraries = 'idem'
idem.databases = 'postgres'
SETTINGS
    as_postgres "$bin/pg_ctl" start --silent --wait --pgdata="$PGDATA" --log=/tmp/server.log || { cat /tmp/server.log; exit 1; }
    ask 'CREATE EXTENSION idem'
    [ "$(ask "SELECT outcome FROM idem_execute('pay-7f3a', 'SELECT 25')")" = acquired ]
    [ "$(ask "SELECT outcome FROM idem_execute('pay-7f3a', 'SELECT 25')")" = completed ]
    [ "$(ask "SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'idem launcher'")" = t ]
    [ -z "$(ask "SELECT check_name, detail FROM idem_health() WHERE level NOT IN ('ok', 'notice')")" ]
    ask 'SELECT module_name, version, file_name FROM pg_get_loaded_modules()'
    as_postgres "$bin/pg_ctl" stop --silent --wait --pgdata="$PGDATA" --mode=fast
}

# -------------------------------------------------------------------------------------------------------------------------

case ${1:-} in
    layout)
        [ $# -ge 2 ] || usage
        layout "$2" "${3:-$(package_of_extension)}"
        ;;
    check)
        is_root || die "needs root: it makes and enters root directories (debootstrap, unshare, chroot)"
        package_of_extension >/dev/null
        mkdir -p "$packages"
        log=$packages/images.log
        : >"$log"
        attempt 'image: the steps of container/Containerfile' build_image && attempt 'image: starts twice, with the worker on' run_image || true
        attempt 'volume: a server without idem, and the layout' build_volume && attempt 'volume: CREATE EXTENSION by extension_control_path' run_volume || true
        rm -rf --one-file-system "$home/$suite.image" "$home/$suite.volume"
        finish
        ;;
    *) usage ;;
esac
