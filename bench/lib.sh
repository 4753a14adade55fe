# What the groups share. Sourced by run.sh.
# shellcheck shell=bash

bindir=$("$PG_CONFIG" --bindir)
cores=$(nproc)
cluster=bench-$$
drivers=build/cmake/bin
scratch=$(mktemp -d /tmp/idem-bench.XXXXXX)
samples=$scratch/samples.tsv
: >"$samples"
contenders=$scratch/contenders
awk -v to="$contenders" -f bench/contenders.awk bench/contenders/*.sql
children=()
on_processors=()
# The tables of the row flows.
rows=40000
# What the flows are measured under: with flush as they are used, without it for what the call itself costs.
loads_with_flush=('8 clients')
loads_without_flush=('1 client, one processor')

die() { echo "bench: $*" >&2; exit 1; }

progress() { printf '%s\n' "$*" >&2; }

stop_everything() {
    if [ ${#children[@]} -gt 0 ]; then
        kill "${children[@]}" 2>/dev/null || true
        wait "${children[@]}" 2>/dev/null || true
    fi
    scripts/cluster.sh stop "$cluster"
    rm -rf "$scratch"
}
trap stop_everything EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

build_drivers() {
    local log=$scratch/build.log
    {
        cmake -S . -B build/cmake &&
            cmake --build build/cmake --parallel "$cores" --target idem-bench-batch idem-bench-try idem-bench-delay \
                idem-bench-contention idem-bench-redis idem-bench-once idem-bench-storm idem-bench-handover
    } >"$log" 2>&1 || { cat "$log" >&2; die "the drivers could not be built"; }
}

# Commits are real (fsync is on) and no checkpoint falls into a run. Arguments: further settings.
start_cluster() {
    scripts/cluster.sh start "$cluster" shared_buffers=512MB max_wal_size=16GB min_wal_size=2GB checkpoint_timeout=1h \
        listen_addresses=127.0.0.1 port="$(free_port)" "$@"
    eval "$(scripts/cluster.sh env "$cluster")"
    PGPASSWORD=$(od -An -N 16 -t x1 /dev/urandom | tr -d ' \n')
    export PGPASSWORD REDISCLI_AUTH=$PGPASSWORD
    sql <<<"ALTER ROLE postgres PASSWORD '$PGPASSWORD'"
    if [ -n "${IDEM_PORTABLE:-}" ]; then
        install_portable "$PGDATABASE"
        sql -c "ALTER DATABASE $PGDATABASE SET search_path = public, idem"
    else
        sql -c 'CREATE EXTENSION idem'
    fi
    sql -f "$contenders/shared/schema.sql" -f "$contenders/request/plpgsql_schema.sql"
    sql -v prefill="$prefill" -f bench/keys/prefill.sql
}

# Below those that the kernel gives to clients.
free_port() {
    local port
    until port=$((10000 + RANDOM % 20000)) && ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
    echo "$port"
}

# start_redis APPENDFSYNC: a server of its own, from Debian's redis-tools (the package redis-server adds only a link to the same program,
# and a service, which nobody asked for), at 127.0.0.1 as Redis usually is, under a password. Sets REDIS to its address, and `redis`.
# With appendfsync=always it answers when a change is on disk, as synchronous_commit=on does; with everysec it may lose a second.
start_redis() {
    local directory
    directory=$(mktemp -d "$scratch/redis.XXXXXX") redis_port=$(free_port)
    REDIS=127.0.0.1:$redis_port
    ln -sf "$(command -v redis-check-rdb)" "$scratch/redis-server"
    "$scratch/redis-server" - >"$directory/log" 2>&1 <<CONFIGURATION &
bind 127.0.0.1
port $redis_port
requirepass $REDISCLI_AUTH
dir $directory
save ""
appendonly yes
appendfsync $1
auto-aof-rewrite-percentage 0
CONFIGURATION
    redis=$!
    children+=("$redis")
    until [ "$(redis_cli ping 2>/dev/null)" = PONG ]; do
        kill -0 "$redis" 2>/dev/null || { cat "$directory/log" >&2; die 'Redis did not start'; }
        sleep 0.1
    done
}

stop_redis() {
    stop_child "$redis"
    unset redis
}

redis_cli() { redis-cli -p "$redis_port" "$@"; }

# redis_fill VALUE, names on standard input: nothing else is left in Redis; the names live for a day.
redis_fill() {
    redis_cli FLUSHALL >/dev/null
    sed "s/.*/SET & '$1' EX 86400/" | redis_cli --pipe >/dev/null
}

# redis_rate CONTENDER_FILE KEYS: runs it with `clients` clients (bench/redis.cpp); prints requests per second.
redis_rate() {
    "${on_processors[@]}" "$drivers/idem-bench-redis" "$REDIS" "$1" "$2" "$clients" "$((clients < cores ? clients : cores))" \
        "$run_seconds" >"$scratch/redis.out" || die "$1 failed"
    cut -f 1 "$scratch/redis.out"
}

# Requests of the last run.
redis_requests() { cut -f 2 "$scratch/redis.out"; }

# start_proxy MICROSECONDS: holds every message back for so long (bench/delay.cpp); points PGHOST at it and sets `proxy`.
start_proxy() {
    local directory server=$PGHOST/.s.PGSQL.$PGPORT
    if [[ $PGHOST != /* ]]; then server=$PGHOST:$PGPORT; fi
    directory=$(mktemp -d "$scratch/delay.XXXXXX")
    run_proxy "$directory/.s.PGSQL.$PGPORT" "$server" "$1"
    proxy=$!
    children+=("$proxy")
    PGHOST=$directory
    until "$bindir/pg_isready" --quiet; do kill -0 "$proxy" || die "the delaying proxy did not start"; sleep 0.1; done
}

# The same for Redis: REDIS and `redis_proxy`.
start_redis_proxy() {
    local directory
    directory=$(mktemp -d "$scratch/delay.XXXXXX")
    run_proxy "$directory/redis" "$REDIS" "$1"
    redis_proxy=$!
    children+=("$redis_proxy")
    REDIS=$directory/redis
    until [ -S "$REDIS" ]; do kill -0 "$redis_proxy" || die "the delaying proxy did not start"; sleep 0.1; done
}

# run_proxy LISTEN_SOCKET SERVER MICROSECONDS: when it is stopped, LISTEN_SOCKET.trips says how many round trips it saw.
run_proxy() { "$drivers/idem-bench-delay" "$@" >"$1.trips" & }

# stop_child PID: one of `children`.
stop_child() {
    local child kept=()
    kill "$1"
    wait "$1" 2>/dev/null || true
    for child in "${children[@]}"; do [ "$child" = "$1" ] || kept+=("$child"); done
    children=("${kept[@]}")
}

# Prints bare values.
sql() { "$bindir/psql" --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 "$@"; }

# run_pgbench OPTION... -- FILE...: the files are parts of one script; the report is left in pgbench.out. pgbench knows whole seconds
# only; with `alarm` set, it gets its own signal for the end so many seconds after its clients have connected. `protocol`: the statements
# are prepared unless it says otherwise.
run_pgbench() {
    local options=() script=$scratch/script.sql pgbench
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    cat "$@" >"$script"
    "${on_processors[@]}" "$bindir/pgbench" --no-vacuum --protocol="${protocol:-prepared}" --define=prefill="$prefill" --define=rows="$rows" \
        --define=turn=-1 --file="$script" "${options[@]}" >"$scratch/pgbench.out" 2>"$scratch/pgbench.err" &
    pgbench=$!
    if [ -n "${alarm:-}" ]; then
        sql -v clients="$clients" -v seconds="$alarm" -f bench/wait.sql >/dev/null
        kill -ALRM "$pgbench" 2>/dev/null || true
    fi
    wait "$pgbench" || { cat "$scratch/pgbench.err" >&2; die "pgbench failed on $*"; }
}

# pgbench_tps FILE...: runs them with `clients` clients; prints transactions per second.
pgbench_tps() {
    local alarm='' seconds=$run_seconds
    if [[ $run_seconds == *.* ]]; then alarm=$run_seconds seconds=60; fi
    run_pgbench --time="$seconds" --client="$clients" --jobs="$((clients < cores ? clients : cores))" \
        --define=clients="$clients" -- "$@"
    awk '/^tps = / {print $3}' "$scratch/pgbench.out"
}

# pgbench_calls CALLS FILE...: so many transactions in one session.
pgbench_calls() {
    local calls=$1
    shift
    run_pgbench --transactions="$calls" --define=clients=1 -- "$@"
}

# Transactions of the last run.
pgbench_transactions() { awk '/^number of transactions actually processed/ {print $NF + 0}' "$scratch/pgbench.out"; }

# sample MEASURE CASE CONTENDER ROUND VALUE
sample() { printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$group" "$@" >>"$samples"; }

# alternate MEASURE CASE FUNCTION CONTENDER...: rounds of one run each; FUNCTION gets the contender and prints the value.
alternate() {
    local measure=$1 case=$2 function=$3 round contender value
    shift 3
    for ((round = 1; round <= rounds; round++)); do
        for contender in "$@"; do
            value=$("$function" "$contender")
            sample "$measure" "$case" "$contender" "$round" "$value"
        done
    done
    progress "  $measure, $case"
}

# place LOAD: sets `clients` from "N client(s)"; with ", one processor" binds them and their backends to one.
#
# A lone client and its backend either share a processor, or use two, where every message has to wake a sleeping one. In a
# virtual machine that costs several times what a claim does, and the scheduler changes its mind from run to run: left
# alone, one client measures mostly the waking; bound, mostly the work.
place() {
    local postmaster list
    clients=${1%% *}
    list=$(taskset --cpu-list --pid $$ | sed 's/.*: //')
    if [[ $1 == *', one processor' ]]; then list=${list%%[-,]*}; fi
    on_processors=(taskset --cpu-list "$list")
    # Backends inherit it from the postmaster.
    postmaster=$(sql -c "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)")
    taskset --cpu-list --pid "$list" "$postmaster" >/dev/null
    [ -z "${redis:-}" ] || taskset --all-tasks --cpu-list --pid "$list" "$redis" >/dev/null
}

# flow_at_all_loads FLOW MEASURE FUNCTION CONTENDER...: with the commit's flush and without; the flow is the contenders' file.
flow_at_all_loads() {
    local measure=$2 load
    flow=$1
    shift 2
    for load in "${loads_with_flush[@]}"; do
        place "$load"
        alternate "$measure, synchronous_commit=on" "$load" "$@"
    done
    for load in "${loads_without_flush[@]}"; do
        place "$load"
        PGOPTIONS='-c synchronous_commit=off' alternate "$measure, synchronous_commit=off" "$load" "$@"
    done
}

# contender_file GROUP CONTENDER: the floor is everybody's.
contender_file() { if [ "$2" = select_1 ]; then echo "$contenders/shared/select_1.sql"; else echo "$contenders/$1/$2.sql"; fi; }

# The table a contender keeps its keys in; none for the floor.
keys_table() {
    case $1 in
        idem_*) echo idem_keys ;;
        portable*) echo portable.idem_keys ;;
        raw_leanest) echo leanest_keys ;;
        raw_* | hand_written | plpgsql | advisory_lock | merge | on_conflict_do_select) echo raw_keys ;;
        redis*) echo redis ;;
    esac
}

# Every run on fresh keys starts from the same number of keys, inserted in the same order.
refill() {
    local table
    table=$(keys_table "$1")
    case $table in
        idem_keys) sql -c 'TRUNCATE idem_keys' -c 'SELECT count(*) FROM prefill_chunks, idem_claim_many(keys)' ;;
        portable.idem_keys) sql -c 'TRUNCATE portable.idem_keys' -c 'SELECT count(*) FROM prefill_chunks, portable.idem_claim_many(keys)' ;;
        raw_keys) sql -c 'TRUNCATE raw_keys' -c "INSERT INTO raw_keys (scope, key, expires_at)
            SELECT '', key, now() + interval '24 hours' FROM prefill_chunks, unnest(keys) AS key" ;;
        leanest_keys) sql -c 'TRUNCATE leanest_keys' -c 'INSERT INTO leanest_keys (key)
            SELECT key FROM prefill_chunks, unnest(keys) AS key' ;;
        redis) sql -c 'SELECT unnest(keys) FROM prefill_chunks' | redis_fill 1 ;;
    esac >/dev/null
}

# One transaction per key, as the requests did it that are now repeated.
refill_with_responses() {
    sql <<'SQL'
SET synchronous_commit = off;
TRUNCATE idem_keys, raw_keys;
DO $$
DECLARE
    answer constant jsonb = '{"order_id": 4711, "status": "paid", "amount": "129.90", "currency": "EUR"}';
    request_key text;
BEGIN
    FOR request_key IN SELECT unnest(keys) FROM prefill_chunks LOOP
        PERFORM idem_begin(request_key);
        PERFORM idem_complete(request_key, answer, 201);
        INSERT INTO raw_keys (scope, key, expires_at) VALUES ('', request_key, now() + interval '24 hours');
        UPDATE raw_keys SET status_code = 201, response = answer WHERE scope = '' AND raw_keys.key = request_key;
        COMMIT;
    END LOOP;
END
$$;
VACUUM (ANALYZE);
SQL
}

# expect_keys CONTENDER COUNT: a benchmark that did not do its work is not to be believed.
expect_keys() {
    local table found
    table=$(keys_table "$1")
    [ -n "$table" ] || return 0
    if [ "$table" = redis ]; then found=$(redis_cli DBSIZE); else found=$(sql -c "SELECT count(*) FROM $table"); fi
    [ "$found" -eq "$2" ] || die "$1 left $found keys in $table instead of $2"
}

# expect COUNT WHAT QUERY: the same for any contender. The server's statistics come late: looks again for two seconds.
expect() {
    local found deadline=$((SECONDS + 2))
    found=$(sql -c "$3")
    while [ "$found" -ne "$1" ] && [ $SECONDS -le $deadline ]; do
        sleep 0.1
        found=$(sql -c "$3")
    done
    [ "$found" -eq "$1" ] || die "there are $found $2 instead of $1"
}

# Rows updated, as the server counts them. A session reports its counts when it ends, which may be a moment after its client has gone.
updates_of() { echo "pg_stat_get_tuples_updated('$1'::regclass)"; }

rows_updated() { sql -c "SELECT $(updates_of "$1")"; }
