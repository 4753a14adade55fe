# A webhook received: one call that checks the signature, reads the id and claims it, beside `idem_consume`, which claims an id that the
# application has checked, and beside an INSERT into a table with a unique index by an application that checks signatures itself. What the
# application's own check takes is in neither. The deliveries are GitHub's, of 300 bytes with five header fields; `prefill` of them were received before.
# shellcheck shell=bash

webhook_contenders=(idem_webhook_receive idem_consume unique_index)

run_webhooks() {
    local load loads=('1 client, one processor' '8 clients')
    if [ -n "$QUICK" ]; then loads=('8 clients'); fi
    sql -c 'DROP TABLE IF EXISTS received_webhooks' -f "$contenders/webhooks/schema.sql" \
        -c "SELECT idem_webhook_source_set('github', 'github', 'a secret of the sender')"
    for load in "${loads[@]}"; do
        place "$load"
        PGOPTIONS='-c synchronous_commit=off' alternate 'new webhooks/s' "$load" webhooks_new "${webhook_contenders[@]}"
    done
    for contender in "${webhook_contenders[@]}"; do receive_prefill "$contender"; done
    for load in "${loads[@]}"; do
        place "$load"
        alternate 'repeated webhooks/s' "$load" webhooks_repeated "${webhook_contenders[@]}"
    done
    sql -c 'TRUNCATE idem_keys' -c 'DROP TABLE received_webhooks' -c "SELECT idem_webhook_source_drop('github')" >/dev/null
}

# received CONTENDER: counts what it has received.
received() {
    case $1 in
        idem_webhook_receive) echo "SELECT count(*) FROM idem_keys WHERE scope = 'webhook'" ;;
        idem_consume) echo "SELECT count(*) FROM idem_keys WHERE scope = 'inbox'" ;;
        unique_index) echo 'SELECT count(*) FROM received_webhooks' ;;
    esac
}

receive_prefill() {
    case $1 in
        idem_webhook_receive) claim_prefill webhook ;;
        idem_consume) claim_prefill inbox ;;
        unique_index) sql -c 'TRUNCATE received_webhooks' -c "INSERT INTO received_webhooks SELECT 'github', unnest(keys) FROM prefill_chunks" ;;
    esac
}

claim_prefill() {
    sql -c "DELETE FROM idem_keys WHERE scope = '$1'" -c 'VACUUM idem_keys' \
        -c "SELECT count(*) FROM prefill_chunks, unnest(keys) AS key WHERE idem_claim(idem_key('github'::text, key), scope => '$1')" >/dev/null
}

webhooks_new() {
    receive_prefill "$1"
    pgbench_tps bench/keys/fresh.sql "$contenders/webhooks/$1.sql"
    expect $((prefill + $(pgbench_transactions))) "webhooks of $1" "$(received "$1")"
}

webhooks_repeated() {
    pgbench_tps bench/keys/duplicate.sql "$contenders/webhooks/$1.sql"
    expect "$prefill" "webhooks of $1" "$(received "$1")"
}
