# What the HTTP layer adds to a claim: idem_http_begin (method, key and fingerprint of an HTTP request, an answer that can be sent)
# beside idem_begin with a fingerprint of the same bytes, which differ from request to request. Fresh requests run, with
# synchronous_commit=off, so that it is the call that is measured; others are replayed, with two header fields and a body of 80 bytes.
# shellcheck shell=bash

http_contenders=(idem_http_begin idem_begin)

run_http() {
    local load loads=('1 client, one processor' '8 clients')
    if [ -n "$QUICK" ]; then loads=('8 clients'); fi
    for load in "${loads[@]}"; do
        place "$load"
        PGOPTIONS='-c synchronous_commit=off' alternate 'fresh requests/s' "$load" fresh_http_requests "${http_contenders[@]}"
    done
    refill_with_responses
    sql -c "UPDATE idem_keys SET scope = 'bench', response = jsonb_build_object('text', response::text, 'headers',
                jsonb_build_object('Location', '/orders/4711', 'Content-Type', 'application/json')),
                fingerprint = idem_fingerprint_bytes(convert_to('POST /orders', 'UTF8') || '\\x00' ||
                    convert_to('{\"customer\": ' || key || ', \"amount\": \"129.90\", \"currency\": \"EUR\"}', 'UTF8'))" \
        -c 'VACUUM (FULL, ANALYZE) idem_keys'
    expect_replays
    for load in "${loads[@]}"; do
        place "$load"
        alternate 'replayed requests/s' "$load" replayed_http_requests "${http_contenders[@]}"
    done
}

# Both are answered with what is stored, not refused.
expect_replays() {
    local key
    key=$(sql -c 'SELECT min(key) FROM idem_keys')
    [ "$(answer_to "$key" action idem_http_begin)" = replay ] && [ "$(answer_to "$key" outcome idem_begin)" = completed ] ||
        die 'requests are not replayed'
}

# answer_to KEY COLUMN CONTENDER
answer_to() {
    sql -v key="$1" <<<"SELECT $2 FROM ($(sed "/^BEGIN;\$/d; /^COMMIT;\$/d; s/;\$//; s/:key/:'key'/g" "$contenders/http/$3.sql")) AS r"
}

fresh_http_requests() {
    refill "$1"
    pgbench_tps bench/keys/fresh.sql "$contenders/http/$1.sql"
    expect_keys "$1" $((prefill + $(pgbench_transactions)))
}

replayed_http_requests() {
    pgbench_tps bench/keys/duplicate.sql "$contenders/http/$1.sql"
    expect_keys "$1" "$prefill"
}
