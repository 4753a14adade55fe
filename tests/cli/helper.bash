# Shared by the files of tests/cli.

bats_require_minimum_version 1.5.0

idem() { "$IDEM" "$@"; }

# idem in the background: its process is $!, and ends with the test. It ignores what it finds ignored: under nohup, HUP.
start() {
    env --default-signal=HUP "$IDEM" "$@" &
    pids+=($!)
}

sql() { psql -XAtq --set=ON_ERROR_STOP=1 -c "$1"; }

# Every test has keys of its own.
setup() {
    key=$BATS_SUITE_TEST_NUMBER-$$
    pids=()
    dir=$BATS_TEST_TMPDIR
    started=$dir/started
    mkfifo "$started"
    # Open at both ends, so that neither waits for the other.
    exec 7<>"$started"
}

teardown() {
    local pid
    for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
}

# The next line that a command wrote to $started; fails when none comes.
hear() { read -r -t "${1:-60}" heard <&7; }

state_of() { sql "SELECT state FROM idem.idem_lookup('$1')"; }

# Waits for a process in the background; sets `status`.
await() {
    status=0
    wait "$1" || status=$?
}

has_function() { [ "$(sql "SELECT count(*) FROM pg_proc WHERE proname = '$1'")" != 0 ]; }

server() {
    (
        source "$root/scripts/lib.sh"
        as_server "$("$PG_CONFIG" --bindir)/pg_ctl" "$1" --silent --wait --pgdata="$PGHOST/data" --mode=fast --log="$PGHOST/server.log"
    ) 7<&- >/dev/null 3>&-
}
