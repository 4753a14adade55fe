# Debian's RabbitMQ between the relays and the consumers of examples/rabbitmq, all of which are killed.

load helper

accounts=250 numbers=40 # 10,000 messages

setup_file() {
    export root
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    make_database rabbitmq "$root/examples/rabbitmq/shop.sql"
    # Where a test wants a consumer to be: its transaction has done all, and waits for nothing but this lock.
    sql "CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END';
         CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION at_commit()"
    export broker_port epmd_port distribution_port
    broker_port=$(free_port) epmd_port=$(free_port) distribution_port=$(free_port)
    export AMQP_URL=amqp://guest:guest@127.0.0.1:$broker_port/%2F
    home=$IDEM_SOCKETS/examples/rabbitmq
    export home
    mkdir "$home"
    if is_root; then chown postgres: "$home"; fi
    spawn epmd as_server env HOME="$home" ERL_EPMD_ADDRESS=127.0.0.1 epmd -port "$epmd_port"
    await_port "$epmd_port"
    start_broker
    await_port "$broker_port"
}

teardown_file() {
    local name
    for name in relay-1 relay-2 consumer-1 consumer-2; do end "$name" KILL; done
    end broker KILL
    end epmd TERM
}

# Debian's own scripts, but for the one that wants to be root or the service's user. All it needs is in its own directory, and it
# talks on loopback only. "Under systemd" makes it stay the process that was started.
start_broker() {
    spawn broker as_server env HOME="$home" ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT="$epmd_port" \
        RABBITMQ_NODENAME=idem@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$broker_port" \
        RABBITMQ_DIST_PORT="$distribution_port" RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}' \
        RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_CONFIG_FILE="$home/rabbitmq" RABBITMQ_ENABLED_PLUGINS_FILE="$home/plugins" \
        RABBITMQ_MNESIA_BASE="$home/mnesia" RABBITMQ_LOG_BASE="$home" RABBITMQ_LOGS=- RABBITMQ_SCHEMA_DIR="$home/schema" \
        RABBITMQ_GENERATED_CONFIG_DIR="$home/config" RUNNING_UNDER_SYSTEMD=true /usr/lib/rabbitmq/bin/rabbitmq-server
}

# start relay-1: the number is only to tell them apart, here and in pg_stat_activity.
start() { PGAPPNAME=$1 spawn "$1" "$PYTHON" "$root/examples/rabbitmq/${1%-*}.py"; }

restart() {
    end "$1" KILL
    start "$1"
}

# await CONDITION [SECONDS]
await() {
    local i
    for ((i = 0; i < ${2:-600} * 20; i++)); do
        if [ "$(sql "SELECT $1")" = t ]; then return; fi
        sleep 0.05
    done
    echo "timed out: $1" >&2
    sql "SELECT count(*) AS applied FROM ledger; SELECT count(*) AS unsent FROM idem.idem_outbox" >&2
    tail -n 5 "$IDEM_SOCKETS"/examples/{relay,consumer}-?.log >&2
    return 1
}

applied() { await "count(*) >= $1 FROM ledger"; }

all_sent() { await 'NOT EXISTS (SELECT FROM idem.idem_outbox) AND NOT EXISTS (SELECT FROM idem.idem_outbox_leases)'; }

# publish FIRST LAST: these numbers of all accounts, a transaction for each number, and now and then one that rolls back.
publish() {
    local number
    for ((number = $1; number <= $2; number++)); do
        echo "BEGIN; SELECT count(move(account, 0, 1)) FROM generate_series(1, 10) AS account; ROLLBACK;"
        echo "SELECT count(move(account, $number, account * $number)) FROM generate_series(1, $accounts) AS account;"
    done | psql -Xq --output=/dev/null --set=ON_ERROR_STOP=1
}

# A session of the test's that does as it is told until release.
hold() {
    coproc holder { PGHOST=$IDEM_SOCKETS PGUSER=postgres psql -XAtq --set=ON_ERROR_STOP=1; }
    echo "$1; SELECT 'held';" >&"${holder[1]}"
    local line
    while read -r -t 60 line <&"${holder[0]}"; do
        if [ "$line" = held ]; then return; fi
    done
    return 1
}

release() {
    local pid=$holder_PID
    echo '\q' >&"${holder[1]}"
    wait "$pid"
}

# await_waiting PROGRAM CALL: sets `victim`.
await_waiting() {
    local i
    for ((i = 0; i < 6000; i++)); do
        victim=$(sql "SELECT application_name FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE '$1-%'
                      AND query LIKE '%$2%' LIMIT 1")
        if [ -n "$victim" ]; then return; fi
        sleep 0.05
    done
    echo "no $1 waits in $2" >&2
    return 1
}

signal_broker() { kill "-$1" "$(cat "$IDEM_SOCKETS/examples/broker.pid")"; }

# The broker has a batch, the outbox does not know. A relay that waits for the broker's word has a lease; so had one that is gone, until all
# is sent.
kill_relay_before_ack() {
    local victim
    all_sent
    signal_broker STOP
    publish "$1" "$1"
    await 'EXISTS (SELECT FROM idem.idem_outbox_leases)'
    hold 'BEGIN; SELECT fence FROM idem.idem_outbox_leases FOR UPDATE'
    signal_broker CONT
    await_waiting relay idem_outbox_ack
    # Its server process is in the middle of the call, and would finish it.
    end "$victim" KILL
    sql "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = '$victim'"
    release
    start "$victim"
}

# The ledger has a message, the broker does not know. What is left to its server process is the commit.
kill_consumer_before_ack() {
    local victim
    hold 'SELECT pg_advisory_lock(1)'
    publish "$1" "$1"
    await_waiting consumer COMMIT
    end "$victim" KILL
    release
    start "$victim"
}

pause() { sleep "0.$((RANDOM % 9))"; }

messages_in_queues() {
    "$PYTHON" - <<'PY'
import os, sys
sys.path.insert(0, os.environ["root"] + "/examples/rabbitmq")
import broker, pika
with pika.BlockingConnection(broker.parameters()) as connection:
    channel = connection.channel()
    print(sum(channel.queue_declare(name, passive=True).method.message_count for name in broker.names()))
PY
}

# All is applied; what came twice may still be in a queue, or with a consumer, that gives it back when it ends.
stop_when_drained() {
    local i
    for ((i = 0; i < 60; i++)); do
        end consumer-1 TERM
        end consumer-2 TERM
        if [ "$(messages_in_queues)" -eq 0 ]; then return; fi
        start consumer-1
        start consumer-2
        sleep 2
    done
    echo "there are messages that nobody takes" >&2
    return 1
}

@test "10,000 messages, relays, consumers and the broker killed: each is applied once, in the order of its account" {
    publish 1 9
    for program in relay-1 relay-2 consumer-1 consumer-2; do start "$program"; done
    applied 500
    kill_relay_before_ack 10
    kill_consumer_before_ack 11
    publish 12 19
    applied 2000
    for program in consumer-1 relay-2 consumer-2 relay-1 consumer-1; do
        pause
        restart "$program"
    done
    kill_consumer_before_ack 20
    publish 21 25

    end broker KILL
    publish 26 30
    restart consumer-2
    start_broker
    await_port "$broker_port"
    publish 31 $((numbers - 2))
    kill_consumer_before_ack $((numbers - 1))
    kill_relay_before_ack "$numbers"

    applied $((accounts * numbers))
    all_sent
    stop_when_drained
}

@test "… each movement is in the ledger once, and nothing else is" {
    [ "$(sql "SELECT count(*), count(DISTINCT (account, number)) FROM ledger")" = "$((accounts * numbers))|$((accounts * numbers))" ]
    [ "$(sql "SELECT count(*) FROM movement FULL JOIN ledger USING (account, number, amount) WHERE movement IS NULL OR ledger IS NULL")" -eq 0 ]
}

@test "… the order of every account was kept" {
    [ "$(sql "SELECT count(*) FROM (SELECT number, row_number() OVER (PARTITION BY account ORDER BY applied) AS place FROM ledger) AS l
              WHERE number <> place")" -eq 0 ]
}

@test "… things did come twice, from relays and from the broker" {
    cd "$IDEM_SOCKETS/examples"
    [ "$(cat consumer-?.log | grep -c '^seen before: [0-9]* $')" -gt 0 ]
    [ "$(cat consumer-?.log | grep -c '^seen before: [0-9]* redelivered$')" -gt 0 ]
    [ "$(sql "SELECT count(*) FROM idem.idem_dead_letters")" -eq 0 ]
}
