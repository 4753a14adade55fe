# idem step: a part of a command of `idem run`, once over all attempts.

load helper

# attempt COMMAND: as the command of the key; `status` and `output`.
attempt() {
    run --separate-stderr idem run --quiet --any-command --key "$key" --lease 6s --wait 1min -- bash -ec "idem() { '$IDEM' \"\$@\"; }; $1"
}

@test "step: what is done is not repeated, its output is" {
    attempt "idem step charge -- sh -c 'echo x >>$dir/ran; echo receipt 7; echo note >&2'; exit 3"
    [ "$status" -eq 3 ]
    [ "$output" = "receipt 7" ]
    [ "$stderr" = note ]
    attempt "[ \"\$(idem step charge -- sh -c 'echo x >>$dir/ran' 2>/dev/null)\" = 'receipt 7' ]"
    [ "$status" -eq 0 ]
    [ "$(cat "$dir/ran")" = x ]
}

@test "step: what is done is known when the retention is over" {
    sql "SELECT fence FROM idem.idem_begin('$key', lease => '1 min')" >"$dir/fence"
    export IDEM_KEY=$key IDEM_SCOPE='' IDEM_FENCE
    IDEM_FENCE=$(cat "$dir/fence")
    for i in 1 2; do
        run --separate-stderr idem step charge -- sh -c "echo x >>$dir/ran; echo receipt 7"
        [ "$status" -eq 0 ]
        [ "$output" = "receipt 7" ]
        sql "UPDATE idem.idem_keys SET expires_at = now() - interval '1 s', lease_until = now() - interval '1 s' WHERE key = '$key'"
    done
    [ "$(cat "$dir/ran")" = x ]
}

@test "step: one that failed is taken again" {
    attempt "idem step charge -- sh -c 'echo x >>$dir/ran; exit 5'"
    [ "$status" -eq 5 ]
    [ "$(sql "SELECT steps FROM idem.idem_lookup('$key')")" = "" ] || [ "$(sql "SELECT steps FROM idem.idem_lookup('$key')")" = '{"charge": null}' ]
    attempt "idem step charge -- sh -c 'echo x >>$dir/ran'"
    [ "$status" -eq 0 ]
    [ "$(grep -c x "$dir/ran")" = 2 ]
}

@test "step: when it may have happened, --reconcile says whether it did" {
    attempt "idem step charge --reconcile 'echo never >>$dir/asked' -- sh -c 'echo x >>$dir/ran; exit 5'"
    [ ! -e "$dir/asked" ]
    attempt "idem step charge --reconcile 'echo a >>$dir/asked; exit 2' -- sh -c 'echo x >>$dir/ran'"
    [ "$status" -eq 79 ]
    [[ "$stderr" == *"in doubt"* ]]
    attempt "idem step charge --reconcile 'echo b >>$dir/asked; exit 1' -- sh -c 'echo x >>$dir/ran; exit 6'"
    [ "$status" -eq 6 ]
    attempt "idem step charge --reconcile 'echo receipt 8' -- sh -c 'echo x >>$dir/ran'"
    [ "$status" -eq 0 ]
    [ "$output" = "receipt 8" ]
    [ "$(grep -c x "$dir/ran")" = 2 ]
    [ "$(tr '\n' ' ' <"$dir/asked")" = "a b " ]
}

@test "step: the run that was killed in the middle is taken over, and goes on" {
    start run --quiet --any-command --key "$key" --lease 6s -- bash -ec "'$IDEM' step one -- sh -c 'echo 1 >>$dir/ran'; '$IDEM' step two -- sh -c 'echo 2 >>$dir/ran; echo up >$started; sleep 60'"
    hear
    kill -KILL "${pids[0]}"
    attempt "idem step one -- sh -c 'echo 1 >>$dir/ran'; idem step two --reconcile 'grep -q 2 $dir/ran' -- false; idem step three -- sh -c 'echo 3 >>$dir/ran'"
    [ "$status" -eq 0 ]
    [ "$(tr '\n' ' ' <"$dir/ran")" = "1 2 3 " ]
}

@test "step: output over the scope's limit is not stored, the step is" {
    sql "SELECT idem.idem_scope_set('step-small', max_response_size => 400)"
    for i in 1 2; do
        run --separate-stderr idem run --quiet --scope step-small --any-command --key "$key" -- sh -c "'$IDEM' step large -- sh -c 'echo x >>$dir/ran; head -c 1000 /dev/zero | tr \"\\0\" y'; exit 4"
        [ "$status" -eq 4 ]
    done
    [ "$(cat "$dir/ran")" = x ]
    sql "SELECT idem.idem_scope_drop('step-small')"
}

@test "step: outside of a run, without a command, with a stale fence" {
    run --separate-stderr env -u IDEM_KEY "$IDEM" step charge -- true
    [ "$status" -eq 64 ]
    [[ "$stderr" == *'IDEM_KEY is not set'* ]]
    run --separate-stderr idem step charge
    [ "$status" -eq 64 ]
    run --separate-stderr env IDEM_KEY="$key" IDEM_SCOPE= IDEM_FENCE=1 "$IDEM" step charge -- touch "$dir/ran"
    [ "$status" -eq 76 ]
    [ ! -e "$dir/ran" ]
}

@test "step: a signal before its command ends it with 128 and its number" {
    sql "SELECT fence FROM idem.idem_begin('$key', lease => '1 min')" >"$dir/fence"
    IDEM_KEY=$key IDEM_SCOPE='' IDEM_FENCE=$(cat "$dir/fence") run --separate-stderr python3 -c '
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.kill(os.getpid(), signal.SIGTERM)
os.execv(sys.argv[1], sys.argv[1:])' "$IDEM" step charge -- touch "$dir/ran"
    [ "$status" -eq 143 ]
    [ ! -e "$dir/ran" ]
}
