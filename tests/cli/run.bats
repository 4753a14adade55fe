# idem run: a command once per key, whoever comes, whatever happens meanwhile.

load helper

@test "run: the first runs the command, with its output, exit code and environment" {
    run --separate-stderr idem run --key "$key" --scope s -- sh -c 'echo "$IDEM_KEY $IDEM_SCOPE $IDEM_ATTEMPT"; [ "$IDEM_FENCE" -gt 0 ]; echo e >&2'
    [ "$status" -eq 0 ]
    [ "$output" = "$key s 1" ]
    [ "$stderr" = e ]
}

@test "run: a duplicate repeats the exit code and does not run the command" {
    for i in 1 2 3; do
        run --separate-stderr idem run --key "$key" -- sh -c "echo x >>$dir/ran"
        [ "$status" -eq 0 ]
        [ "$output" = "" ]
    done
    [ "$(cat "$dir/ran")" = x ]
    [[ "$stderr" == *"was run before, until 20"*"exit code 0"* ]]
    run --separate-stderr idem run --quiet --key "$key" -- sh -c "echo x >>$dir/ran"
    [ "$status" -eq 0 ]
    [ "$stderr" = "" ]
}

@test "run: stored output is replayed to its streams" {
    local command=(sh -c 'echo out $$; printf "no newline" >&2')
    run --separate-stderr idem run --quiet --key "$key" --store-output -- "${command[@]}"
    [ "$status" -eq 0 ]
    local first=$output
    [ "$stderr" = "no newline" ]
    run --separate-stderr idem run --quiet --key "$key" -- "${command[@]}"
    [ "$status" -eq 0 ]
    [ "$output" = "$first" ]
    [ "$stderr" = "no newline" ]
}

@test "run: without --store-output nothing that was written is stored" {
    idem run --key "$key" -- echo secret
    [ "$(sql "SELECT count(*) FROM idem.idem_lookup('$key') WHERE response::text LIKE '%secret%'")" = 0 ]
}

@test "run: binary output is replayed byte by byte" {
    head -c 100000 /dev/urandom >"$dir/bytes"
    printf 'a\0b' >>"$dir/bytes"
    idem run --key "$key" --store-output -- cat "$dir/bytes" | cmp - "$dir/bytes"
    idem run --quiet --key "$key" --store-output -- cat "$dir/bytes" | cmp - "$dir/bytes"
}

@test "run: huge output passes through, is not stored, and that is said" {
    idem run --key "$key-2" --store-output -- sh -c 'yes | head -c 20000000' 2>"$dir/err" | cmp -n 20000000 - <(yes | head -c 20000000)
    grep -q 'wrote 20000000 bytes to stdout' "$dir/err"
    run --separate-stderr idem run --key "$key-2" --store-output -- sh -c 'yes | head -c 20000000'
    [ "$status" -eq 0 ]
    [ "$output" = "" ]
    [[ "$stderr" == *"stdout was not stored: 20000000 bytes"* ]]
}

@test "run: a response over the scope's limit leaves the exit code" {
    sql "SELECT idem.idem_scope_set('small', max_response_size => 50)"
    for i in 1 2; do
        run --separate-stderr idem run --key "$key" --scope small --store-output --on-failure complete -- sh -c "echo x >>$dir/ran; seq 100; exit 5"
        [ "$status" -eq 5 ]
    done
    [ "$output" = "" ]
    [[ "$stderr" == *"not stored"* ]]
    [ "$(cat "$dir/ran")" = x ]
}

@test "run: a failure releases the key, and the next attempt is told so" {
    for attempt in 1 2; do
        run idem run --key "$key" -- sh -c 'echo $IDEM_ATTEMPT; exit 3'
        [ "$status" -eq 3 ]
        [ "$output" = "$attempt" ]
        [ "$(state_of "$key")" = released ]
    done
    idem run --any-command --key "$key" -- true
    [ "$(state_of "$key")" = completed ]
}

@test "run: --on-failure complete makes the failure the result" {
    for i in 1 2; do
        run idem run --quiet --key "$key" --on-failure complete -- sh -c "echo x >>$dir/ran; exit 3"
        [ "$status" -eq 3 ]
    done
    [ "$(cat "$dir/ran")" = x ]
}

@test "run: a command that a signal ends is 128 + n, and so is its replay" {
    for i in 1 2; do
        run idem run --quiet --key "$key" --on-failure complete -- sh -c "echo x >>$dir/ran; kill -KILL \$\$"
        [ "$status" -eq 137 ]
    done
    [ "$(cat "$dir/ran")" = x ]
}

@test "run: not found is 127, not executable is 126, and neither keeps the key, whatever the policy" {
    for policy in release complete; do
        run -127 idem run --key "$key" --on-failure "$policy" -- no-such-command
        [ "$status" -eq 127 ]
        run idem run --any-command --key "$key" --on-failure "$policy" -- /etc/passwd
        [ "$status" -eq 126 ]
        [ "$(state_of "$key")" = released ]
    done
}

@test "run: while it is in flight others get 75 at once" {
    start run --key "$key" -- sh -c "echo go >$started; exec sleep 60"
    hear
    run --separate-stderr idem run --any-command --key "$key" -- touch "$dir/ran"
    [ "$status" -eq 75 ]
    [[ "$stderr" == *"in flight"* ]]
    run idem run --quiet --any-command --key "$key" -- touch "$dir/ran"
    [ "$status" -eq 75 ]
    [ "$output" = "" ]
    [ ! -e "$dir/ran" ]
    kill -TERM $!
    await $!
    [ "$status" -eq 143 ]
}

@test "run: a row that is locked when the command ends is waited for, and the command does not run again" {
    mkfifo "$dir/finish"
    PGOPTIONS='-c lock_timeout=200ms' start run --key "$key" --wait forever -- sh -c "echo x >>$dir/ran; echo go >$started; read x <$dir/finish"
    hear
    sql "BEGIN; SELECT FROM idem.idem_keys WHERE key = '$key' FOR UPDATE; SELECT pg_sleep(3); COMMIT" &
    pids+=($!)
    until [ "$(sql "SELECT count(*) FROM pg_locks WHERE relation = 'idem.idem_keys'::regclass AND mode = 'RowShareLock'")" != 0 ]; do :; done
    echo >"$dir/finish"
    await "${pids[0]}"
    [ "$status" -eq 0 ]
    [ "$(cat "$dir/ran")" = x ]
    [ "$(state_of "$key")" = completed ]
}

# What a shell has started before it execs idem is idem's child, too.
@test "run: the end of another child does not end the wait" {
    start run --any-command --key "$key" -- sh -c "echo go >$started; sleep 2"
    hear
    sh -c 'sleep 0.5 & exec "$@"' sh "$IDEM" run --any-command --quiet --key "$key" --wait forever -- false
}

@test "run: a signal that is ignored stays ignored" {
    mkfifo "$dir/finish"
    start run --any-command --key "$key" -- sh -c "echo go >$started; read x <$dir/finish"
    hear
    (trap '' HUP; exec "$IDEM" run --any-command --quiet --key "$key" --wait forever -- false) &
    local waiter=$!
    pids+=("$waiter")
    until [ "$(sql "SELECT count(*) FROM pg_stat_activity WHERE datname = 'idem_cli' AND application_name = 'idem' AND query LIKE '%idem_begin%' AND state = 'active'")" != 0 ]; do :; done
    kill -HUP "$waiter"
    echo >"$dir/finish"
    await "$waiter"
    [ "$status" -eq 0 ]
}

@test "run: output that could not be written is said, and the result is recorded" {
    run --separate-stderr sh -c '"$0" "$@" >/dev/full' "$IDEM" run --key "$key" --store-output -- echo result
    [ "$status" -eq 74 ]
    [[ "$stderr" == *"No space left on device"*"exit code 0, and that is recorded"* ]]
    [ "$(idem run --quiet --key "$key" --store-output -- echo result)" = result ]
}

@test "run: a reader that takes nothing more does not outlast TERM" {
    mkfifo "$dir/out"
    exec 8<>"$dir/out"
    start run --key "$key" --store-output -- sh -c "head -c 200000 /dev/zero | tr '\\0' x; echo go >$started" >&8
    local first=$!
    # The command cannot end before what it wrote is read: all but what fits into two pipes.
    head -c 100000 <&8 >/dev/null
    hear
    until [ ! -e "/proc/$first/task/$first/children" ] || [ "$(ps -o stat= --ppid "$first" | head -c 1)" = Z ]; do :; done
    kill -TERM "$first"
    await "$first"
    [ "$status" -eq 0 ]
    [ "$(state_of "$key")" = completed ]
    exec 8<&-
}

@test "run: --wait waits for the holder and replays its result" {
    mkfifo "$dir/finish"
    local command=(sh -c "echo go >$started; read x <$dir/finish; echo result")
    start run --key "$key" --store-output -- "${command[@]}" >"$dir/first"
    hear
    start run --quiet --key "$key" --wait forever -- "${command[@]}" >"$dir/second"
    local second=$!
    echo >"$dir/finish"
    await "$second"
    [ "$status" -eq 0 ]
    [ "$(cat "$dir/second")" = result ]
}

@test "run: --wait gives up with 75 when the time is over" {
    start run --key "$key" -- sh -c "echo go >$started; exec sleep 60"
    hear
    run idem run --any-command --key "$key" --wait 1200ms -- true
    [ "$status" -eq 75 ]
    kill -TERM $!
    await $!
}

@test "run: a signal ends the wait, and the holder is left alone" {
    start run --key "$key" -- sh -c "echo go >$started; exec sleep 60"
    local holder=$!
    hear
    start run --any-command --key "$key" --wait forever -- touch "$dir/ran"
    local waiter=$!
    # It is in its wait when the server knows of it.
    until [ "$(sql "SELECT count(*) FROM pg_stat_activity WHERE datname = 'idem_cli' AND application_name = 'idem' AND query LIKE '%idem_begin%' AND state = 'active'")" != 0 ]; do :; done
    kill -TERM "$waiter"
    await "$waiter"
    [ "$status" -eq 143 ]
    [ "$(state_of "$key")" = in_progress ]
    kill -TERM "$holder"
    await "$holder"
    [ ! -e "$dir/ran" ]
}

@test "run: another command under the same key is a mismatch, unless commands are not compared" {
    idem run --key "$key" -- true
    run idem run --key "$key" -- touch "$dir/ran"
    [ "$status" -eq 65 ]
    run idem run --quiet --any-command --key "$key" -- touch "$dir/ran"
    [ "$status" -eq 0 ]
    [ ! -e "$dir/ran" ]
}

@test "run: a key that was used for no command is no success" {
    idem claim "$key"
    run idem run --key "$key" -- touch "$dir/ran"
    [ "$status" -eq 65 ]
    sql "DO \$\$ DECLARE f bigint; BEGIN SELECT fence INTO f FROM idem.idem_begin('$key-2', lease => '1 min'); PERFORM idem.idem_complete('$key-2', '{}', 0, f); END \$\$"
    run idem run --key "$key-2" -- touch "$dir/ran"
    [ "$status" -eq 65 ]
    [ ! -e "$dir/ran" ]
}

@test "run: signals reach the command, and a key whose command they end is released" {
    # bash starts background commands with INT and QUIT ignored; the unit tests have those.
    for signal in TERM HUP USR1 USR2; do
        start run --any-command --key "$key" -- perl -e "\$SIG{$signal} = sub { exit 9 }; open F, '>', '$started'; print F \"go\n\"; close F; sleep 60"
        hear
        kill "-$signal" $!
        await $!
        [ "$status" -eq 9 ]
        [ "$(state_of "$key")" = released ]
    done
}

@test "run: when the lease is lost the command is stopped, and the exit code says so" {
    start run --key "$key" --lease 6s --grace 1s -- sh -c "trap '' TERM; echo \$\$ >$started; while :; do sleep 1; done" 2>"$dir/err"
    local holder=$!
    hear
    [ "$(idem forget "$key")" = forgotten ]
    await "$holder"
    [ "$status" -eq 76 ]
    if kill -0 "$heard" 2>/dev/null; then false; fi
    grep -q 'lease was lost' "$dir/err"
    [ "$(state_of "$key")" = "" ]
}

@test "run: the lease outlasts a command that runs longer than it" {
    mkfifo "$dir/finish"
    start run --key "$key" --lease 6s -- sh -c "echo go >$started; read x <$dir/finish; echo done >$started"
    hear
    run idem run --any-command --key "$key" --wait 13s -- touch "$dir/ran"
    [ "$status" -eq 75 ]
    echo >"$dir/finish"
    hear
    [ "$heard" = "done" ]
    await $!
    [ "$status" -eq 0 ]
    [ ! -e "$dir/ran" ]
}

@test "run: when idem is killed its command dies too, and is taken over when the lease has run out" {
    start run --key "$key" --lease 6s -- sh -c "echo \$\$ >$started; exec sleep 60"
    local holder=$!
    hear
    kill -KILL "$holder"
    await "$holder"
    run idem run --any-command --key "$key" --wait 1min -- sh -c 'echo attempt $IDEM_ATTEMPT'
    [ "$output" = "attempt 2" ]
    while kill -0 "$heard" 2>/dev/null; do :; done # until its new parent has noticed
}

@test "run: where the scope leaves it to an operator, an abandoned key is in doubt" {
    sql "SELECT idem.idem_scope_set('careful', on_lease_expiry => 'manual')"
    start run --key "$key" --scope careful --lease 6s -- sh -c "echo go >$started; exec sleep 60"
    local holder=$!
    hear
    kill -KILL "$holder"
    await "$holder"
    run idem run --any-command --key "$key" --scope careful --wait 1min -- touch "$dir/ran"
    [ "$status" -eq 79 ]
    [ ! -e "$dir/ran" ]
}

@test "run: of many that start at the same time exactly one runs, and all answer the same" {
    local i codes=()
    for i in $(seq 24); do
        start run --quiet --key "$key" --wait 1min --store-output -- sh -c "echo x >>$dir/ran; echo result \$\$" >"$dir/out.$i"
    done
    for i in "${pids[@]}"; do
        await "$i"
        codes+=("$status")
    done
    [ "$(cat "$dir/ran")" = x ]
    [ "$(printf '%s\n' "${codes[@]}" | sort -u)" = 0 ]
    [ "$(cat "$dir"/out.* | sort -u | wc -l)" -eq 1 ]
    [ "$(cat "$dir"/out.* | wc -l)" -eq 24 ]
}

@test "run: of many that do not wait exactly one runs, the others are told that it is in flight or done" {
    local i codes=()
    for i in $(seq 24); do
        start run --quiet --key "$key" -- sh -c "echo x >>$dir/ran"
    done
    for i in "${pids[@]}"; do
        await "$i"
        codes+=("$status")
    done
    [ "$(cat "$dir/ran")" = x ]
    [ -z "$(printf '%s\n' "${codes[@]}" | grep -vE '^(0|75)$')" ]
}

@test "run: standard input is the command's" {
    run idem run --key "$key" -- cat <<<"from stdin"
    [ "$output" = "from stdin" ]
}

@test "run: a reader that goes away does not end the command" {
    mkfifo "$dir/finish"
    start run --key "$key" --store-output -- sh -c "yes | head -c 200000; read x <$dir/finish; echo the end; touch $dir/ran" > >(head -n 1 >"$dir/line")
    local runner=$!
    until [ -s "$dir/line" ]; do :; done
    echo >"$dir/finish"
    await "$runner"
    [ "$status" -eq 0 ]
    [ -e "$dir/ran" ]
}

@test "run: a restart of the server while the command runs is survived" {
    mkfifo "$dir/finish"
    local command=(sh -c "echo go >$started; read x <$dir/finish; echo x >>$dir/ran; exit 4")
    start run --key "$key" --lease 1min --on-failure complete -- "${command[@]}"
    hear
    server restart
    echo >"$dir/finish"
    await $!
    [ "$status" -eq 4 ]
    run idem run --quiet --key "$key" -- "${command[@]}"
    [ "$status" -eq 4 ]
    [ "$(cat "$dir/ran")" = x ]
}

@test "run: a command that ends while the server is away is recorded when it is back" {
    mkfifo "$dir/finish"
    local command=(sh -c "echo go >$started; read x <$dir/finish")
    start run --key "$key" --lease 1min -- "${command[@]}"
    hear
    server stop
    echo >"$dir/finish"
    server start
    await $!
    [ "$status" -eq 0 ]
    [ "$(state_of "$key")" = completed ]
}

@test "run: when the server is away for longer than the lease the command is stopped" {
    start run --key "$key" --lease 6s -- sh -c "echo \$\$ >$started; exec sleep 60"
    hear
    server stop
    await $!
    server start
    [ "$status" -eq 76 ]
    while kill -0 "$heard" 2>/dev/null; do :; done # until its new parent has noticed
}

@test "run: without a server, or without the extension, the command does not run" {
    PGHOST=$dir run idem run --key "$key" -- touch "$dir/ran"
    [ "$status" -eq 69 ]
    run idem run --dsn dbname=idem_cli_bare --key "$key" -- touch "$dir/ran"
    [ "$status" -eq 78 ]
    [[ "$output" == *'extension "idem" is not installed'* ]]
    [ ! -e "$dir/ran" ]
}

@test "run: usage errors are 64, and say what would be right" {
    run idem run --key "$key"
    [ "$status" -eq 64 ]
    [[ "$output" == *"after --"* ]]
    run idem run -- true
    [ "$status" -eq 64 ]
    [[ "$output" == *"--key"* ]]
    run idem run --key "$key" --lease 30 -- true
    [ "$status" -eq 64 ]
    [[ "$output" == *"30s"* ]]
    run idem run --key "$key" --on-failure ignore -- true
    [ "$status" -eq 64 ]
    run idem run --key '' -- true
    [ "$status" -eq 64 ]
    run idem run --key "$key" --lease 0 -- true
    [ "$status" -eq 64 ]
}

@test "run: the command's own options and double dashes are the command's" {
    run idem run --key "$key" -- echo --key x -- -h
    [ "$output" = "--key x -- -h" ]
}
