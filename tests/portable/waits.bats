# Waits of the portable edition that end at the same moment in two ways. On the cluster of the environment.

setup_file() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    bindir=$("${PG_CONFIG:-pg_config}" --bindir)
    export PATH=$bindir:$PATH PGDATABASE=waits
    make --silent --directory="$root" portable
    createdb waits
    psql -Xq --file="$root/build/idem--portable.sql" >/dev/null
}

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
