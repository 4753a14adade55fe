# The other subcommands: what they print, and how they end.

load helper

# What a server without the function says.
expect_too_old() {
    run idem "$@"
    [ "$status" -eq 78 ]
    [[ "$output" == *"too old"* ]]
}

@test "claim: acquired once, then completed" {
    run idem claim "$key"
    [ "$status" -eq 0 ]
    [ "$output" = acquired ]
    run idem claim "$key"
    [ "$status" -eq 1 ]
    [ "$output" = completed ]
    run idem claim --json --scope other "$key"
    [ "$output" = '{"outcome": "acquired"}' ]
}

@test "claim: --ttl ends it" {
    idem claim --ttl 1ms "$key"
    run idem claim --ttl 1h "$key"
    [ "$output" = acquired ]
}

@test "claim: in flight is 75, and --wait waits" {
    start run --key "$key" -- sh -c "echo go >$started; exec sleep 60"
    local holder=$!
    hear
    run idem claim "$key"
    [ "$status" -eq 75 ]
    start claim "$key" --wait forever >"$dir/out"
    local waiter=$!
    kill -TERM "$holder"
    await "$waiter"
    [ "$status" -eq 0 ]
    [ "$(cat "$dir/out")" = acquired ]
}

@test "claim: of many at the same time one is told acquired" {
    local i
    for i in $(seq 16); do start claim --wait 1min "$key" >"$dir/out.$i"; done
    for i in "${pids[@]}"; do await "$i"; done
    [ "$(cat "$dir"/out.* | sort | uniq -c | tr -s ' ')" = "$(printf ' 1 acquired\n 15 completed')" ]
}

@test "lookup: shows the key as a table or as JSON; no key is 1" {
    idem run --key "$key" -- true
    run idem lookup "$key"
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == "state "*"status_code"* ]]
    [[ "${lines[2]}" == "completed "* ]]
    run idem lookup --json "$key"
    [ "$(sql "SELECT (\$x\$$output\$x\$::jsonb)[0]['response']['exit_code']")" = 0 ]
    run --separate-stderr idem lookup "$key-none"
    [ "$status" -eq 1 ]
    [ "$output" = "" ]
    [ "$stderr" != "" ]
    run --separate-stderr idem --quiet --json lookup "$key-none"
    [ "$status" -eq 1 ]
    [ "$output" = "[]" ]
    [ "$stderr" = "" ]
}

@test "forget: makes the work possible again; nothing to forget is 1" {
    idem claim "$key"
    run idem forget "$key"
    [ "$status" -eq 0 ]
    [ "$output" = forgotten ]
    run idem forget "$key"
    [ "$status" -eq 1 ]
    [ "$output" = not_found ]
    run idem claim "$key"
    [ "$output" = acquired ]
}

@test "token: accepted once, by the one it was issued to" {
    local token
    token=$(idem token issue --subject alice --ttl 5min)
    run idem token redeem --subject bob "$token"
    [ "$status" -eq 1 ]
    [ "$output" = invalid ]
    run idem token redeem --subject alice "$token"
    [ "$status" -eq 0 ]
    [ "$output" = accepted ]
    run idem token redeem --json --subject alice "$token"
    [ "$status" -eq 1 ]
    [ "$(sql "SELECT '$output'::json ->> 'outcome'")" = duplicate ]
    run idem token redeem nonsense
    [ "$output" = invalid ]
    run idem token redeem "$(idem token issue --ttl 1ms)"
    [ "$output" = expired ]
    run idem token issue --ttl 8d
    [ "$status" -eq 64 ]
}

@test "next-id: numbers that grow" {
    run idem next-id --count 100
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 100 ]
    [ "$(sort -nu <<<"$output")" = "$output" ]
    run idem next-id --json
    [ "$(sql "SELECT json_array_length('$output')")" = 1 ]
    run idem next-id --count 0
    [ "$status" -eq 64 ]
}

@test "transition and machine: every outcome has its exit code" {
    sql "SELECT idem.idem_machine_define('m', '{\"initial\": [\"new\"], \"transitions\": {\"new\": [\"paid\"], \"paid\": [\"sent\"]}}')"
    sql "CREATE TABLE public.orders (id int PRIMARY KEY, state text)" -c ""
    sql "SELECT idem.idem_machine_attach('public.orders', 'state', 'm')"
    sql "INSERT INTO public.orders VALUES (1, 'new')"
    local id='{"id": 1}'
    run idem transition public.orders "$id" paid
    [ "$status $output" = "0 moved paid" ]
    run idem transition public.orders "$id" paid
    [ "$status $output" = "0 already paid" ]
    run idem transition public.orders "$id" sent --from new
    [ "$status $output" = "1 conflict paid" ]
    run idem transition public.orders "$id" new
    [ "$status $output" = "1 not_allowed paid" ]
    run idem transition --json public.orders '{"id": 2}' sent
    [ "$status" -eq 1 ]
    [ "$(sql "SELECT '$output'::json ->> 'outcome'")" = not_found ]
    run idem transition no_such_table "$id" sent
    [ "$status" -eq 64 ]
    [[ "$output" == *no_such_table* ]]
    [[ "$output" != *"too old"* ]]
    run idem transition public.orders 'no json' sent
    [ "$status" -eq 64 ]
    run idem machine dot m
    [ "$status" -eq 0 ]
    [[ "$output" == digraph*paid* ]]
    run idem machine dot no_such_machine
    [ "$status" -ne 0 ]
}

@test "sweep: deletes what has expired, and shows how much" {
    has_function idem_sweep || { expect_too_old sweep; return; }
    sql "SELECT count(idem.idem_claim('sweep-' || i, '1 ms')) FROM generate_series(1, 3000) i"
    PGOPTIONS='' run --separate-stderr idem sweep --batch 500 --pause 1ms
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == "table "* ]]
    [[ "$stderr" == *idem_keys*"rows deleted"* ]]
    [ "$(sql "SELECT count(*) FROM idem.idem_keys WHERE key LIKE 'sweep-%'")" = 0 ]
    PGOPTIONS='' run --separate-stderr idem sweep --quiet
    [ "$status" -eq 0 ]
    [ "$stderr" = "" ]
    run idem sweep --batch 0
    [ "$status" -eq 64 ]
}

@test "stats: a row for each scope" {
    [ "$(sql "SELECT to_regclass('idem.idem_stats') IS NULL")" = f ] || { expect_too_old stats; return; }
    run --separate-stderr idem stats
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == "scope "*acquired*swept* ]]
    run --separate-stderr idem stats --json
    sql "SELECT json_array_length('$output')"
}

@test "in-flight: shows who is at work" {
    has_function idem_in_flight || { expect_too_old in-flight; return; }
    start run --key "$key" -- sh -c "echo go >$started; exec sleep 60"
    hear
    run idem in-flight
    [ "$status" -eq 0 ]
    [[ "$output" == *"$key"*leased* ]]
    kill -TERM $!
    await $!
    run idem in-flight --json
    [[ "$output" != *"$key"* ]]
}

@test "backlog: a row for each topic" {
    has_function idem_outbox_backlog || { expect_too_old backlog; return; }
    sql "SELECT idem.idem_publish('$key', '1'), idem.idem_publish('$key', '2', delay => '1 hour')"
    run idem backlog
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == "topic "*ready*delayed*leased*parked*oldest* ]]
    run --separate-stderr idem backlog --json
    [ "$(sql "SELECT (m ->> 'ready') || (m ->> 'delayed') FROM json_array_elements('$output') m WHERE m ->> 'topic' = '$key'")" = 11 ]
    sql "DELETE FROM idem.idem_outbox WHERE topic = '$key'"
}

@test "health: a failed check is 1" {
    has_function idem_health || { expect_too_old health; return; }
    run idem health
    [[ "${lines[0]}" == "check_name "*level*detail* ]]
    local failed
    failed=$(sql "SELECT count(*) FROM idem.idem_health() WHERE level IN ('warning', 'critical')")
    [ "$status" -eq "$((failed > 0))" ]
    # The first check says which edition answers.
    [[ "$(sql 'SELECT edition FROM idem.idem_version()') ${lines[2]}" == @("c version "*" library "*|"portable version "*" portable edition "*) ]]
    run idem health --json
    [ "$(sql "SELECT json_array_length(\$x\$$output\$x\$) > 3")" = t ]
}

@test "privileges: who may not is told so with 77, and so is who cannot write" {
    sql "CREATE ROLE idem_cli_nobody LOGIN"
    PGUSER=idem_cli_nobody run idem claim "$key"
    [ "$status" -eq 77 ]
    sql "DROP ROLE idem_cli_nobody"
    PGOPTIONS='-c default_transaction_read_only=on' run idem claim "$key"
    [ "$status" -eq 77 ]
    PGOPTIONS='-c default_transaction_read_only=on' run idem lookup "$key"
    [ "$status" -eq 1 ]
}

@test "connection: --dsn, before and after the subcommand; no server is 69, no extension 78" {
    run env -u PGDATABASE "$IDEM" --dsn dbname=idem_cli claim "$key"
    [ "$status" -eq 0 ]
    run env -u PGDATABASE "$IDEM" claim --dsn "postgresql:///idem_cli" "$key"
    [ "$status" -eq 1 ]
    run idem claim --dsn "host=$dir" "$key"
    [ "$status" -eq 69 ]
    run idem claim --dsn dbname=idem_cli_bare "$key"
    [ "$status" -eq 78 ]
}

@test "input: bad keys and options are 64, and nothing goes to stdout" {
    for arguments in "claim" "claim --ttl 5 k" "claim --ttl 0 k" "claim --nonsense k" "nonsense" "" "token" "claim a b" \
        "claim $(head -c 1025 /dev/zero | tr '\0' k)"; do
        run --separate-stderr idem $arguments
        [ "$status" -eq 64 ]
        [ "$output" = "" ]
        [ "$stderr" != "" ]
    done
    run idem claim $'\xff'
    [ "$status" -eq 64 ]
}

@test "output: a full disk under stdout is 74, not success" {
    idem claim "$key"
    run sh -c "'$IDEM' lookup '$key' >/dev/full"
    [ "$status" -eq 74 ]
}
