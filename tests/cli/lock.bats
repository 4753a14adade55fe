# idem lock: one at a time, across hosts.

load helper

@test "lock: runs the command and passes its exit code on" {
    run idem lock "$key" -- sh -c 'echo "$IDEM_LOCK"; exit 7'
    [ "$status" -eq 7 ]
    [ "$output" = "$key" ]
    run -127 idem lock "$key" -- no-such-command
    [ "$status" -eq 127 ]
    run idem lock "$key" -- /etc/passwd
    [ "$status" -eq 126 ]
}

@test "lock: is free again afterwards, and fences grow" {
    local first second
    first=$(idem lock "$key" -- sh -c 'echo $IDEM_FENCE')
    second=$(idem lock "$key" -- sh -c 'echo $IDEM_FENCE')
    [ "$second" -gt "$first" ]
}

@test "lock: busy is 75, quietly with --quiet" {
    start lock "$key" -- sh -c "echo go >$started; exec sleep 60"
    hear
    run idem lock "$key" -- touch "$dir/ran"
    [ "$status" -eq 75 ]
    [ "$output" != "" ]
    run idem lock --quiet "$key" --wait 700ms -- touch "$dir/ran"
    [ "$status" -eq 75 ]
    [ "$output" = "" ]
    [ ! -e "$dir/ran" ]
    kill -TERM $!
    await $!
    [ "$status" -eq 143 ]
    idem lock "$key" -- true
}

@test "lock: of many that wait only one at a time is inside" {
    echo 0 >"$dir/count"
    local i
    for i in $(seq 8); do
        start lock "$key" --wait forever -- sh -c "mkdir $dir/inside && n=\$(cat $dir/count) && echo \$((n + 1)) >$dir/count && rmdir $dir/inside"
    done
    for i in "${pids[@]}"; do
        await "$i"
        [ "$status" -eq 0 ]
    done
    [ "$(cat "$dir/count")" -eq 8 ]
}

@test "lock: when it is lost the command is stopped, and the exit code says so" {
    start lock "$key" --ttl 6s -- sh -c "echo \$IDEM_FENCE >$started; exec sleep 60"
    hear
    [ "$(sql "SELECT idem.idem_unlock('$key', $heard)")" = t ]
    await $!
    [ "$status" -eq 76 ]
}

@test "lock: one that was lost unnoticed is not called a success" {
    run idem lock "$key" --ttl 1min -- sh -c "$(command -v psql) -XAtqc \"SELECT idem.idem_unlock('$key', \$IDEM_FENCE)\""
    [ "$status" -eq 76 ]
}

@test "lock: a signal ends the wait" {
    start lock "$key" -- sh -c "echo go >$started; exec sleep 60"
    local holder=$!
    hear
    start lock "$key" --wait forever -- touch "$dir/ran"
    local waiter=$!
    until [ "$(sql "SELECT count(*) FROM pg_stat_activity WHERE datname = 'idem_cli' AND application_name = 'idem' AND query LIKE '%idem_lock(%' AND state = 'active'")" != 0 ]; do :; done
    kill -TERM "$waiter"
    await "$waiter"
    [ "$status" -eq 143 ]
    kill -TERM "$holder"
    await "$holder"
    [ ! -e "$dir/ran" ]
}

@test "lock: a command is needed" {
    run idem lock "$key"
    [ "$status" -eq 64 ]
    run idem lock -- true
    [ "$status" -eq 64 ]
}
