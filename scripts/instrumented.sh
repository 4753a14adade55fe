# A private cluster whose server runs under a tool, with an extension that
# was built apart from the tree and is found by Debian's setting extension_destdir. Sourced, never run.
# shellcheck shell=bash disable=SC2154

# Sets `work`, a directory that the server can read: `root` in it is where the extension goes, `reports` where the tool writes.
prepare() {
    bindir=$("$PG_CONFIG" --bindir)
    cluster=$1-$$
    work=$(mktemp -d "/tmp/idem-$1.XXXXXX")
    root=$work/root reports=$work/reports kept=build/$1
    at_exit finish
    chmod 755 "$work"
    mkdir -m 777 "$reports"
    rm -rf "${kept:?}/reports" && mkdir -p "$kept"
    as_server "$bindir/postgres" --describe-config | grep '^extension_destdir' >/dev/null || {
        echo "$(basename "$0"): the server of $PG_CONFIG has no setting extension_destdir, which Debian's servers have" >&2
        exit 1
    }
}

finish() {
    cp "/tmp/idem-$(id -u)/$cluster/server.log" "$kept/server.log" 2>/dev/null || true
    scripts/cluster.sh stop "$cluster" || true
    cp -R "$reports" "$kept/" 2>/dev/null || true
    rm -rf "${work:?}"
}

# Builds in a copy of the sources, which keeps its objects for the next time, if that is for the same server with the same
# arguments, which go to make.
build_extension() {
    local sources=$kept/sources stamp
    stamp="$PG_CONFIG, $("$PG_CONFIG" --version): $*"
    [ "$stamp" = "$(cat "$sources/stamp" 2>/dev/null)" ] || rm -rf "${sources:?}"
    mkdir -p "$sources"
    echo "$stamp" >"$sources/stamp"
    find "$sources" \( -name '*.cpp' -o -name '*.hpp' -o -name '*.sql' \) -delete
    tar --create --exclude='*.o' --exclude='*.d' --exclude='*.bc' Makefile extension sql | tar --extract --directory="$sources"
    make --silent --directory="$sources" --jobs="$(nproc)" all with_llvm=no "$@"
    make --silent --directory="$sources" install with_llvm=no DESTDIR="$root" "$@" >/dev/null
    install_pgtap
    chmod -R a+rX "$root"
}

# pgTAP is SQL alone, so that of another server will do.
install_pgtap() {
    local extensions file
    extensions=$("$PG_CONFIG" --sharedir)/extension
    if [ -e "$extensions/pgtap.control" ]; then return; fi
    for file in /usr/share/postgresql/*/extension/pgtap*; do
        install -D --mode=644 --target-directory="$root$extensions" "$file"
    done
}

# start_server COMMAND SETTING...: COMMAND is what to put before the server's own command line.
start_server() {
    local command=$1
    shift
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$command" "$bindir/postgres" >"$work/postgres"
    chmod 755 "$work/postgres"
    IDEM_POSTGRES=$work/postgres scripts/cluster.sh start "$cluster" fsync=off max_prepared_transactions=10 \
        extension_destdir="$root" dynamic_library_path="$root$("$PG_CONFIG" --pkglibdir):\$libdir" \
        shared_preload_libraries=idem "$@"
    eval "$(scripts/cluster.sh env "$cluster")"
    make_pgtap_database
    "$bindir/psql" --no-psqlrc --quiet --tuples-only --command="SELECT pg_read_file('/proc/self/maps')" | grep "$root.*/idem\.so" >/dev/null || {
        echo "$(basename "$0"): the server did not load the library that was built for this" >&2
        exit 1
    }
}

run_pgtap() {
    if [ $# -eq 0 ]; then return; fi
    pg_prove --psql-bin "$bindir/psql" --dbname pgtap --timer "$@"
}

run_isolation() {
    if [ $# -eq 0 ]; then return; fi
    make --silent installcheck REGRESS= ISOLATION="$*" \
        ISOLATION_OPTS="--inputdir=tests/isolation --outputdir=$kept/isolation --load-extension=idem"
}

# The tests that were named, or all of them: those of pgTAP into `files`, those of isolation into `specs`.
select_tests() {
    local name
    files=() specs=()
    if [ $# -eq 0 ]; then set -- tests/pgtap/*/*.sql tests/isolation/specs/*.spec; fi
    for name in "$@"; do
        case $name in
            *.sql) files+=("$name") ;;
            *) specs+=("$(basename "$name" .spec)") ;;
        esac
    done
}

# Stopped first: what a process finds out at its end counts, too.
stop_server() {
    local data=$PGHOST/data
    as_server "$bindir/pg_ctl" stop --silent --wait --timeout=120 --pgdata="$data" --mode=fast || return
    if grep -E -A 25 'runtime error:|was terminated by signal' "$PGHOST/server.log"; then return 1; fi
}
