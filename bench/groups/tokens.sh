# Tokens issued, one a call: `select_1` is the floor, a round trip that does nothing. Redeeming is measured alone: the tokens were issued
# beforehand, and both contenders look theirs up by number in the same table: `idem_token_redeem` a token, `idem_claim` a key as long
# as the one that a token is remembered by. The tables of both hold the same number of names before a run.
# shellcheck shell=bash

run_tokens() {
    local load commit rows=300000
    expect_no_writes
    place '8 clients'
    alternate 'tokens issued/s' '8 clients' tokens_issued idem_token_issue select_1

    prepare_tokens
    for commit in on off; do
        for load in '1 client, one processor' '8 clients'; do
            place "$load"
            PGOPTIONS="-c synchronous_commit=$commit" \
                alternate "tokens redeemed/s, synchronous_commit=$commit" "$load" tokens_redeemed idem_token_redeem idem_claim
        done
    done
    sql -c 'TRUNCATE idem_tokens, idem_keys' -c 'DROP TABLE prepared_tokens'
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

tokens_issued() { pgbench_tps "$(contender_file tokens "$1")"; }

# `rows` to redeem in the runs, and after them `prefill` to redeem before each.
prepare_tokens() {
    sql -c 'DROP TABLE IF EXISTS prepared_tokens' \
        -c "CREATE TABLE prepared_tokens AS SELECT id, idem_token_issue('session 4711', '7 days') AS token,
                substr(encode(sha256(id::text::bytea), 'hex'), 1, 32) AS key
            FROM generate_series(1, $((rows + prefill))) AS id" \
        -c 'ALTER TABLE prepared_tokens ADD PRIMARY KEY (id)' -c 'VACUUM (ANALYZE) prepared_tokens'
}

tokens_redeemed() {
    local table=idem_tokens call="idem_token_redeem(token, 'session 4711')"
    if [ "$1" = idem_claim ]; then table=idem_keys call='idem_claim(key)'; fi
    sql -c "TRUNCATE $table" -c "SELECT count($call) FROM prepared_tokens WHERE id > $rows" >/dev/null
    pgbench_tps bench/keys/row.sql "bench/contenders/tokens/$1.sql"
    expect $((prefill + $(pgbench_transactions))) "rows in $table" "SELECT count(*) FROM $table"
}
