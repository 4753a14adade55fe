# What the advisory locks of the portable edition must not do: stay with a session, or let those that wait hinder each other. On the cluster of the
# environment.

setup_file() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    bindir=$("${PG_CONFIG:-pg_config}" --bindir)
    export PATH=$bindir:$PATH PGDATABASE=waits
    make --silent --directory="$root" portable
    createdb waits
    psql -Xq --file="$root/build/idem--portable.sql" >/dev/null
}

teardown() { psql -XAtqc 'SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()'; }

teardown_file() { PGDATABASE=postgres psql -Xqc 'DROP DATABASE waits WITH (FORCE)'; }

# Other sessions would take such a lock for a holder of the key.
@test "a lock_timeout that comes as the key is free leaves no lock to the session" {
    psql -Xqc "DO \$\$ BEGIN LOOP PERFORM idem.idem_claim('k'), pg_sleep(0.002 + random() * 0.001); ROLLBACK; END LOOP; END \$\$" 3>&- &
    run psql -XAtq -c "DO \$\$
        DECLARE
            kept integer := 0;
        BEGIN
            FOR i IN 1..1500 LOOP
                BEGIN
                    PERFORM set_config('lock_timeout', (2 + i % 3)::text, true);
                    PERFORM idem.idem_claim('k');
                    RAISE no_data_found;
                EXCEPTION WHEN no_data_found OR lock_not_available THEN
                    kept := kept + (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted);
                    PERFORM pg_advisory_unlock_all();
                END;
            END LOOP;
            PERFORM set_config('my.kept', kept::text, false);
        END \$\$" -c 'SHOW my.kept'
    [ "$output" = 0 ] || { echo "$output"; false; }
}

@test "an id that cannot be drawn leaves no lock to the session" {
    run psql -XAtq <<'SQL'
SELECT idem.idem_next_id() > 0;
SELECT format('ALTER SEQUENCE idem.idem_ids MAXVALUE %s', last_value) FROM idem.idem_ids \gexec
SELECT idem.idem_next_id();
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid();
ALTER SEQUENCE idem.idem_ids NO MAXVALUE;
SQL
    [ "${lines[0]}" = t ] && [[ $output == *'reached maximum value of sequence'* ]] && [ "${lines[-1]}" = 0 ] || { echo "$output"; false; }
}

@test "of forty that wait for a key whose holder rolls back, one gets it" {
    psql -Xqc 'CREATE TABLE got (pid integer)'
    psql -Xqc "DO \$\$ BEGIN
        PERFORM idem.idem_claim('many');
        WHILE (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted) < 40 LOOP PERFORM pg_sleep(0.01); END LOOP;
        ROLLBACK;
    END \$\$" 3>&- &
    until [ "$(psql -XAtqc "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")" = 1 ]; do sleep 0.02; done
    echo "INSERT INTO got SELECT pg_backend_pid() WHERE idem.idem_claim('many');" >"$BATS_TEST_TMPDIR/claim.sql"
    timeout 60 pgbench --no-vacuum --client=40 --jobs=2 --transactions=1 --file="$BATS_TEST_TMPDIR/claim.sql" 3>&- >"$BATS_TEST_TMPDIR/out" 2>&1 ||
        { cat "$BATS_TEST_TMPDIR/out"; false; }
    [ "$(psql -XAtqc 'SELECT count(*) FROM got')" = 1 ]
}

@test "a free key that an operator forgets is not in flight until the operator commits" {
    run psql -XAtq <<'SQL'
BEGIN;
SELECT idem.idem_forget('free');
\! psql -XAtqc "SELECT idem.idem_try_claim('free')"
COMMIT;
SQL
    [ "$output" = $'f\nacquired' ] || { echo "$output"; false; }
}
