# Tokens issued, one a call: `select_1` is the floor, a round trip that does nothing. Redeeming is measured alone: the tokens were issued
# beforehand, and both contenders look theirs up by number in the same table: `idem_token_redeem` a token, `idem_claim` a key as long
# as the one that a token is remembered by. The tables of both hold the same number of names before a run.
#
# `redis` is what the articles do, over loopback TCP as the others: issuing is SET with an expiry, redeeming a compare-and-delete script, called
# by EVALSHA; appendfsync=always beside synchronous_commit=on, everysec beside off. Issuing writes a row there; `idem_token_issue` writes nothing.
# shellcheck shell=bash

run_tokens() {
    local PGHOST=127.0.0.1 rounds=${ROUNDS:-3} run_seconds=${RUN_SECONDS:-0.5} load loads=('1 client, one processor' '8 clients')
    local rows=$((150000 * (1 + ${run_seconds%.*})))
    if [ -n "$QUICK" ]; then loads=('8 clients') run_seconds=${RUN_SECONDS:-0.3}; fi
    expect_no_writes
    prepare_tokens
    start_redis always
    place '8 clients'
    alternate 'tokens issued/s' '8 clients' tokens_issued idem_token_issue select_1 redis_issue
    redeemed_at on
    stop_redis
    if [ -z "$QUICK" ]; then
        start_redis everysec
        redeemed_at off
        stop_redis
    fi
    sql -c 'TRUNCATE idem_tokens, idem_keys' -c 'DROP TABLE prepared_tokens'
}

# redeemed_at SYNCHRONOUS_COMMIT
redeemed_at() {
    for load in "${loads[@]}"; do
        place "$load"
        PGOPTIONS="-c synchronous_commit=$1" alternate "tokens redeemed/s, synchronous_commit=$1" "$load" \
            tokens_redeemed idem_token_redeem idem_claim redis_redeem
    done
}

# Neither WAL nor a transaction number; the WAL of this session, not the server's. The call before is not looked at: a session that
# reads catalogs first after CREATE EXTENSION tidies up their pages, as any SELECT does.
expect_no_writes() {
    local written
    written=$(sql -c 'SELECT idem_token_issue()' -c 'BEGIN' -c "EXPLAIN (ANALYZE, WAL, BUFFERS) SELECT count(idem_token_issue(i::text)) FROM generate_series(1, 10000) AS i" \
        -c "SELECT 'xid ' || pg_current_xact_id_if_assigned() WHERE pg_current_xact_id_if_assigned() IS NOT NULL" -c 'COMMIT')
    [[ $written == *'Execution Time'* ]] || die 'issuing tokens was not explained'
    [[ ! $written =~ WAL:|dirtied|xid ]] || die "issuing tokens wrote something: $written"
}

tokens_issued() {
    if [ "$1" != redis_issue ]; then
        pgbench_tps "$(contender_file tokens "$1")"
        return
    fi
    redis_cli FLUSHALL >/dev/null
    redis_rate "$contenders/tokens/redis_issue.txt" fresh
    [ "$(redis_cli DBSIZE)" -eq "$(redis_requests)" ] || die 'Redis does not have a token per request'
}

# `rows` to redeem in the runs, and after them `prefill` to redeem before each.
prepare_tokens() {
    sql -c 'DROP TABLE IF EXISTS prepared_tokens' \
        -c "CREATE TABLE prepared_tokens AS SELECT id, idem_token_issue('session 4711', '7 days') AS token,
                substr(encode(sha256(id::text::bytea), 'hex'), 1, 32) AS key
            FROM generate_series(1, $((rows + prefill))) AS id" \
        -c 'ALTER TABLE prepared_tokens ADD PRIMARY KEY (id)' -c 'VACUUM (ANALYZE) prepared_tokens'
}

tokens_redeemed() {
    if [ "$1" = redis_redeem ]; then redis_redeemed; return; fi
    local table=idem_tokens call="idem_token_redeem(token, 'session 4711')"
    if [ "$1" = idem_claim ]; then table=idem_keys call='idem_claim(key)'; fi
    sql -c "TRUNCATE $table" -c "SELECT count($call) FROM prepared_tokens WHERE id > $rows" >/dev/null
    pgbench_tps bench/keys/row.sql "$contenders/tokens/$1.sql"
    expect $((prefill + $(pgbench_transactions))) "rows in $table" "SELECT count(*) FROM $table"
}

redis_redeemed() {
    redis_cli FLUSHALL >/dev/null
    redis_cli EVAL "$(cat "$contenders/tokens/fill.lua")" 0 "$((rows + prefill))" >/dev/null
    redis_rate "$contenders/tokens/redis_redeem.txt" "rows:$rows"
    [ "$(redis_cli DBSIZE)" -eq $((rows + prefill - $(redis_requests))) ] || die 'Redis did not redeem a token per request'
}
