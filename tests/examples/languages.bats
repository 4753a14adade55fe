# The same scenario from each language: requests that come up to three times at once, a gateway that times out, messages that come twice.

load helper

requests=200

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    cd "$root"
    make_database "payments_$BATS_TEST_NUMBER" examples/payments.sql
}

# What the program printed is what the database has, and that is once each.
check() {
    local deliveries
    [ "$status" -eq 0 ]
    deliveries=$(sql "SELECT count(*) FROM answer WHERE delivery < 99")
    [ "$deliveries" = $((requests / 3 * 6 + 3)) ]
    # One payment per request, whose amount and charge no other request has.
    [ "$(sql "SELECT count(*), count(DISTINCT request), count(DISTINCT amount), count(DISTINCT charge) FROM payment")" = \
        "$requests|$requests|$requests|$requests" ]
    # Every delivery of a request was given the same answer, and it names the payment.
    [ "$(sql "SELECT count(*) FROM answer JOIN payment USING (request)
              WHERE delivery < 99 AND status = 201 AND body = jsonb_build_object('payment', id, 'charge', charge)")" = "$deliveries" ]
    # Another amount under a key of before was refused, and told nothing.
    [ "$(sql "SELECT status, body ? 'payment' FROM answer WHERE delivery = 99")" = "422|f" ]
    [ "$(sql "SELECT count(*), count(DISTINCT message) FROM receipt")" = "$requests|$requests" ]
    [[ $output =~ ^"$requests run, $((deliveries - requests)) replayed, 1 refused, "([0-9]+)" in flight, $((requests / 10)) timed out, "([0-9]+)" retried, $requests applied, $((requests - 10)) seen before"$ ]]
    # There were duplicates at the same time, and they came again.
    [ "${BASH_REMATCH[1]}" -gt 0 ]
    [ "${BASH_REMATCH[2]}" -eq $((BASH_REMATCH[1] + requests / 10)) ]
}

@test "Python: one payment per request, the same answer for every delivery" {
    run "$PYTHON" examples/python/main.py "$requests"
    echo "$output"
    check
}

@test "Node: one payment per request, the same answer for every delivery" {
    local status=0
    npm_ci examples/node || status=$?
    if [ "$status" -eq 69 ]; then skip "the npm registry cannot be reached"; fi
    [ "$status" -eq 0 ]
    run node "$copy/main.js" "$requests"
    echo "$output"
    check
}

@test "Java: one payment per request, the same answer for every delivery" {
    run java -cp '/usr/share/java/*' examples/java/Main.java "$requests"
    echo "$output"
    check
}
