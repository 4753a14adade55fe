# A duplicate answered with its stored response: one call, against the two statements it replaces.
# shellcheck shell=bash

run_replay() {
    local load loads=('1 client, one processor' '8 clients')
    if [ -n "$QUICK" ]; then loads=('8 clients'); fi
    refill_with_responses
    for load in "${loads[@]}"; do
        place "$load"
        alternate 'replays/s' "$load" replays idem_begin raw_insert_then_select select_1
    done
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

replays() {
    pgbench_tps bench/keys/duplicate.sql "$(contender_file replay "$1")"
    expect_keys "$1" "$prefill"
}
