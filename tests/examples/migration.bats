# docs/tutorials/dedup-table.md under load: clients of the old code, of both guards and of idem alone work side by side while the old keys
# are carried over. Each message has one effect, and none that was processed before has another.

load helper

setup_file() {
    cd "$BATS_TEST_DIRNAME/../.." || return
    cat >"$BATS_FILE_TMPDIR/tables.sql" <<'SQL'
SET search_path = public, idem;
CREATE TABLE processed (message_id text PRIMARY KEY, response jsonb, created_at timestamptz NOT NULL DEFAULT now());
INSERT INTO processed SELECT 'm-' || n, NULL FROM generate_series(1, 25000) n;
CREATE TABLE effect (message_id text, way text); -- no index would refuse a second one
CREATE FUNCTION by_old_code(id text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO processed (message_id) VALUES (id) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;
CREATE FUNCTION by_idem(id text) RETURNS boolean LANGUAGE sql AS $$ SELECT idem_claim(id, scope => 'messages') $$;
SQL
    sed -n '/^CREATE FUNCTION is_new/,/^\$\$;/p' docs/tutorials/dedup-table.md >>"$BATS_FILE_TMPDIR/tables.sql"
    sed -n '/^    last  text/,/^\$\$;/p' docs/tutorials/dedup-table.md | sed '1i DO $$\nDECLARE' >"$BATS_FILE_TMPDIR/carry.sql"
    sql "DROP DATABASE IF EXISTS migration WITH (FORCE)" || true
    make_database migration "$BATS_FILE_TMPDIR/tables.sql"
    sql 'ALTER DATABASE migration SET search_path = public, idem'
}

# clients WAY: begins four that deliver messages for three seconds; some old, some new, most of them more than once.
clients() {
    cat >"$BATS_TEST_TMPDIR/$1.sql" <<SQL
\set n random(20000, 40000)
INSERT INTO effect SELECT 'm-' || :n, '$1' WHERE $1('m-' || :n);
SQL
    pgbench --no-vacuum --client=4 --jobs=1 --time=3 --file="$BATS_TEST_TMPDIR/$1.sql" >"$BATS_TEST_TMPDIR/$1.log" 2>&1 &
}

@test "docs/tutorials/dedup-table.md: the migration loses no message and repeats none" {
    PATH=$("${PG_CONFIG:-pg_config}" --bindir):$PATH
    # Step 1: hosts with the old code and with both guards.
    clients by_old_code
    clients is_new
    wait
    # Step 2: no old code any more; the keys are carried over meanwhile.
    clients is_new
    sleep 0.5
    psql -Xq --set=ON_ERROR_STOP=1 --file="$BATS_FILE_TMPDIR/carry.sql"
    wait
    # Step 3.
    [ "$(sql "SELECT count(*) FROM processed p WHERE NOT EXISTS (SELECT FROM idem.idem_keys k WHERE k.scope = 'messages' AND k.key = p.message_id)")" = 0 ]
    # Step 4: both guards, and idem alone.
    clients is_new
    clients by_idem
    wait
    grep -H 'number of failed transactions: [^0]\|aborted' "$BATS_TEST_TMPDIR"/*.log && false
    sql 'SELECT way, count(*) FROM effect GROUP BY way'
    [ "$(sql 'SELECT count(DISTINCT way) FROM effect')" = 3 ]
    [ "$(sql 'SELECT count(*) - count(DISTINCT message_id) FROM effect')" = 0 ]
    [ "$(sql "SELECT count(*) FROM effect WHERE substr(message_id, 3)::int <= 25000")" = 0 ]
}
