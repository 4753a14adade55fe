# An installation of an older commit, in use, is brought up to this version in place. Needs the history.

load common

older=822291d4 # three commands of psql, functions with a pinned schema, no domain

setup_file() {
    build_portable
    psql -Xqc 'CREATE ROLE shop LOGIN' -c 'CREATE ROLE teller LOGIN'
}

teardown_file() { psql -Xqc 'DROP ROLE shop' -c 'DROP ROLE teller'; }

setup() {
    export PGDATABASE=upgrade
    PGDATABASE=postgres psql -Xqc 'DROP DATABASE IF EXISTS upgrade WITH (FORCE)' -c 'CREATE DATABASE upgrade OWNER shop TEMPLATE template0'
}

teardown() { PGDATABASE=postgres psql -Xqc 'DROP DATABASE IF EXISTS upgrade WITH (FORCE)' -c 'DROP DATABASE IF EXISTS fresh WITH (FORCE)'; }

install() { psql -XAtq -U shop --set=ON_ERROR_STOP=1 --file="$root/build/idem--portable.sql"; }

# Types and functions, with all that a call of them depends on but OIDs of the database; columns with their types.
members() {
    psql -XAtq -U postgres -d "$1" -c "SELECT format('%s %s %s', oid::regprocedure, pg_get_function_result(oid), md5(regexp_replace(prosrc, '''\d+''::oid', '', 'g'))) FROM pg_proc
            WHERE pronamespace = 'idem'::regnamespace
        UNION ALL SELECT format('%s.%s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
            WHERE c.relnamespace = 'idem'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind <> 'i'
        UNION ALL SELECT format('%s %s', conrelid::regclass, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = 'idem'::regnamespace
        UNION ALL SELECT pg_get_indexdef(c.oid) FROM pg_class c WHERE c.relnamespace = 'idem'::regnamespace AND c.relkind = 'i' ORDER BY 1"
}

@test "live keys, leases, locks, messages, machines, guards and grants go on" {
    git -C "$root" cat-file -e "$older^{commit}" 2>/dev/null || skip 'the history is not here'
    mkdir "$BATS_TEST_TMPDIR/older"
    git -C "$root" archive "$older" | tar -x -C "$BATS_TEST_TMPDIR/older"
    make --silent --directory="$BATS_TEST_TMPDIR/older" portable
    psql -XAtq -U shop --set=ON_ERROR_STOP=1 --file="$BATS_TEST_TMPDIR/older/build/idem--portable.sql"
    sql shop "SELECT idem.idem_grant('teller')" \
        "SELECT idem.idem_scope_set('pay', ttl => '7 days', on_lease_expiry => 'manual')" \
        "SELECT idem.idem_machine_define('order', '{\"initial\": [\"new\"], \"transitions\": {\"new\": [\"paid\"], \"paid\": [\"shipped\"]}}')" \
        'CREATE TABLE orders (id int PRIMARY KEY, state text NOT NULL); CREATE TABLE items (id int PRIMARY KEY, name text); CREATE TABLE marks (name text PRIMARY KEY, fence bigint)' \
        "SELECT idem.idem_machine_attach('orders', 'state', 'order', log => true), idem.optimistic_enable('items')" \
        "INSERT INTO orders VALUES (1, 'new'); INSERT INTO items VALUES (1, 'a')" \
        "SELECT idem.idem_claim('done', scope => 'pay'), idem.idem_execute('once', 'SELECT 41 + 1 AS n', scope => 'pay')" \
        "INSERT INTO marks SELECT 'key', fence FROM idem.idem_begin('leased', lease => '1 hour', scope => 'pay')" \
        "INSERT INTO marks SELECT 'lock', idem.idem_lock('cron', '1 hour')" \
        "SELECT idem.idem_publish('mail', '{\"to\": 1}')" "SELECT idem.idem_hit('hit', '1 day')" \
        "INSERT INTO marks SELECT idem.idem_token_issue(), 0"
    install
    install

    PGDATABASE=postgres psql -Xqc 'CREATE DATABASE fresh OWNER shop TEMPLATE template0'
    PGDATABASE=fresh install
    diff <(members fresh) <(members upgrade)
    [ "$(sql shop "SELECT string_agg(concat_ws(' ', check_name, level, detail), '; ') FROM idem.idem_health() WHERE level <> 'ok'")" = '' ]

    [ "$(sql teller "SELECT idem.idem_claim('done', scope => 'pay'), idem.idem_claim('new', scope => 'pay')")" = 'f|t' ]
    [ "$(sql teller "SELECT outcome, response FROM idem.idem_execute('once', 'SELECT 41 + 1 AS n', scope => 'pay')")" = 'completed|[{"n": 42}]' ]
    [ "$(sql shop "SELECT idem.idem_complete('leased', '{}', fence => fence, scope => 'pay') FROM marks WHERE name = 'key'")" = t ]
    [ "$(sql shop "SELECT idem.idem_unlock('cron', fence) FROM marks WHERE name = 'lock'")" = t ]
    [ "$(sql shop "SELECT idem.idem_token_redeem(name) FROM marks WHERE fence = 0")" = accepted ]
    [ "$(sql shop "SELECT payload FROM idem.idem_outbox_take('mail')")" = '{"to": 1}' ]
    [ "$(sql shop "SELECT hits FROM idem.idem_hits('hit')")" = 1 ]
    [ "$(sql shop "SELECT effective FROM idem.idem_scope_settings WHERE scope = 'pay' AND setting = 'on_lease_expiry'")" = manual ]
    run sql shop "UPDATE orders SET state = 'shipped'"
    [[ $output == *'ERROR:  '*'order'* ]]
    sql shop "UPDATE orders SET state = 'paid'"
    [ "$(sql shop "SELECT from_state, to_state FROM idem.idem_transition_log WHERE to_state = 'paid'")" = 'new|paid' ]
    run sql shop 'UPDATE items SET version = 7'
    [ "$status" -ne 0 ]
    [ "$(sql shop "SELECT outcome FROM idem.optimistic_update('items', '{\"id\": 1}', 1, '{\"name\": \"b\"}')")" = updated ]
}
