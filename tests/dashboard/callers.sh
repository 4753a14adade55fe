#!/usr/bin/env bash
# What the dashboard shows something of: callers of a shop who make each metric of monitoring/queries.yaml move. In the database of the
# environment, until they are ended.
set -u

idem() { psql --no-psqlrc --quiet --tuples-only --no-align "$@" 2>&1; }

# New keys, some of which come again, with another fingerprint now and then; messages, of which a quarter is to wait.
requests() {
    local i
    for ((i = 1; ; i++)); do
        idem <<SQL
SELECT idem_claim('pay-$i', '2 min', 'payments');
SELECT idem_claim('pay-$((i - i % 6))', '2 min', 'payments');
SELECT idem_claim('event-$i', '3 min', 'webhooks');
SELECT outcome FROM idem_begin('import-$((i % 7))-$((i / 300))', idem_fingerprint('$((i % 40 == 0))'), lease => '10 min', scope => 'imports');
SELECT idem_publish('orders', '{}', 'customer-$((i % 5))');
SELECT idem_publish('mail', '{}', delay => CASE WHEN $((i % 4)) = 0 THEN interval '40 s' END);
SQL
        sleep "0.$((RANDOM % 5 + 1))"
    done
}

# Jobs whose holder vanishes. Each fourth comes back when another has taken over.
jobs() {
    local i key fence
    for ((i = 1; ; i++)); do
        key=job-$((i % 3))
        fence=$(idem --command="SELECT fence FROM idem_begin('$key', lease => '2 s', scope => 'jobs')")
        sleep $((RANDOM % 6 + 2))
        idem --command="SELECT outcome FROM idem_begin('$key', lease => '2 s', scope => 'jobs')"
        if ((i % 4 == 0)); then idem --command="SELECT idem_complete('$key', fence => $fence, scope => 'jobs')"; fi
        idem --command="SELECT idem_forget('$key', scope => 'jobs')"
        sleep 3
    done
}

# A transaction that takes its time.
nightly() {
    while :; do
        idem --command='BEGIN' --command="SELECT idem_claim('nightly', scope => 'cron')" --command="SELECT pg_sleep($((RANDOM % 40 + 5)))" --command='ROLLBACK'
        sleep 5
    done
}

# A transfer that fell into doubt, until an operator forgets it.
transfers() {
    local i
    for ((i = 1; ; i++)); do
        idem --command="SELECT outcome FROM idem_begin('transfer-1', lease => '1 s', scope => 'transfers')"
        if ((i % 30 == 0)); then idem --command="SELECT idem_forget('transfer-1', scope => 'transfers')"; fi
        sleep 9
    done
}

relay_of_orders() {
    while :; do
        idem --command="SELECT count(idem_outbox_ack(ARRAY[id], fence)) FROM idem_outbox_take('orders', 50)"
        sleep 1
    done
}

# It fails to send each eleventh, and stands still for two minutes.
relay_of_mail() {
    local i
    for ((i = 1; ; i++)); do
        idem <<'SQL'
SELECT count(CASE WHEN id % 11 = 0 THEN idem_outbox_nack(ARRAY[id], fence, '10 s') ELSE idem_outbox_ack(ARRAY[id], fence) END)
  FROM idem_outbox_take('mail', 20, '20 s');
SQL
        sleep $((i % 40 == 0 ? 120 : 4))
    done
}

for caller in requests jobs nightly transfers relay_of_orders relay_of_mail; do "$caller" & done
wait
