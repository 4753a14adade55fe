# The handler in Python that README.md shows, as it stands there.

load helper

setup_file() {
    cd "$BATS_TEST_DIRNAME/../.." || return
    printf '%s\n' 'CREATE TABLE payment (id int GENERATED ALWAYS AS IDENTITY, account text, amount numeric);' >"$BATS_FILE_TMPDIR/tables.sql"
    make_database front_page "$BATS_FILE_TMPDIR/tables.sql"
    sql 'ALTER DATABASE front_page SET search_path = public, idem'
    port=$(free_port)
    sed -n '/^```python$/,/^```$/{//!p}' README.md | sed "s/8000/$port/" >"$IDEM_SOCKETS/examples/handler.py"
    export port
    spawn handler "$PYTHON" "$IDEM_SOCKETS/examples/handler.py"
    await_port "$port"
}

teardown_file() { end handler TERM; }

# pay KEY BODY: status and body.
pay() {
    curl --silent --write-out '%{http_code} ' --output "$BATS_TEST_TMPDIR/body" --header "Idempotency-Key: \"$1\"" --data "$2" \
        "http://127.0.0.1:$port/payments" && cat "$BATS_TEST_TMPDIR/body"
}

@test "README.md: a repeated request gets the same bytes, and there is one payment" {
    [ "$(pay 7f3c '{"amount": 25}')" = '201 {"status": "paid"}' ]
    [ "$(pay 7f3c '{"amount": 25}')" = '201 {"status": "paid"}' ]
    run curl --silent --include --header 'Idempotency-Key: "7f3c"' --data '{"amount": 25}' "http://127.0.0.1:$port/payments"
    [[ "$output" == *"Idempotent-Replayed: true"* ]]
    [ "$(sql 'SELECT count(*) FROM payment')" = 1 ]
}

@test "README.md: another body under the key is 422, a request without a key 400" {
    [[ "$(pay 7f3c '{"amount": 5000}')" == '422 '* ]]
    [ "$(curl --silent --write-out '%{http_code}' --output /dev/null --data '{}' "http://127.0.0.1:$port/payments")" = 400 ]
    [ "$(sql 'SELECT count(*) FROM payment')" = 1 ]
}

@test "README.md: requests at the same time make one payment" {
    for _ in 1 2 3 4; do
        curl --silent --output /dev/null --header 'Idempotency-Key: "7f3e"' --data '{"amount": 1}' "http://127.0.0.1:$port/payments" &
    done
    wait
    [ "$(sql 'SELECT count(*) FROM payment')" = 2 ]
}

@test "README.md: pay.sql pays once, and prints the response the second time" {
    sed -n '/^BEGIN;$/,/^```$/{/^```$/q;p}' README.md >"$BATS_TEST_TMPDIR/pay.sql"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/pay.sql")" -eq 11 ]
    before=$(sql 'SELECT count(*) FROM payment')
    psql -X -f "$BATS_TEST_TMPDIR/pay.sql"
    run psql -X -f "$BATS_TEST_TMPDIR/pay.sql"
    [ "$output" = $'BEGIN\nROLLBACK\ncompleted {"status": "paid", "payment": 1}' ]
    [ "$(sql 'SELECT count(*) FROM payment')" = $((before + 1)) ]
}
