# Debian's nginx, examples/nginx/nginx.conf, two servers, of which the first does the work and fails to answer.

load helper

setup_file() {
    export root
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    make_database nginx "$root/examples/nginx/shop.sql"
    export front first second
    front=$(free_port) first=$(free_port) second=$(free_port)
    spawn shop-1 "$PYTHON" "$root/examples/nginx/shop.py" "$first" --faulty
    spawn shop-2 "$PYTHON" "$root/examples/nginx/shop.py" "$second"
    local prefix=$IDEM_SOCKETS/examples/nginx
    mkdir "$prefix"
    sed "s/127.0.0.1:8080/127.0.0.1:$front/; s/127.0.0.1:8081/127.0.0.1:$first/; s/127.0.0.1:8082/127.0.0.1:$second/" \
        "$root/examples/nginx/nginx.conf" >"$prefix/nginx.conf"
    if is_root; then chown -R postgres: "$prefix"; fi
    spawn nginx as_server /usr/sbin/nginx -p "$prefix" -c "$prefix/nginx.conf" -g 'daemon off;'
    await_port "$first"
    await_port "$second"
    await_port "$front"
}

teardown_file() {
    end nginx TERM
    end shop-1 TERM
    end shop-2 TERM
}

setup() {
    item=$BATS_TEST_NUMBER
    answers=$BATS_TEST_TMPDIR/answers
    headers=$BATS_TEST_TMPDIR/headers
}

# order PATH [HEADER ...]: prints body and status; the answer's headers go to $headers.
order() {
    local path=$1 arguments=() header
    for header in "${@:2}"; do arguments+=(--header "$header"); done
    curl --silent --show-error --max-time 20 --dump-header "$headers" --write-out ' %{http_code}' --header 'Content-Type: text/plain' \
        "${arguments[@]}" --data "item $item" "http://127.0.0.1:$front$path"
}

# At the same time: nginx takes the servers in turn, so two of these meet the faulty one first.
order_four_times() {
    local i pids=()
    for i in 1 2 3 4; do
        { order "$@" && echo; } >"$answers.$i" &
        pids+=($!)
    done
    for i in "${pids[@]}"; do wait "$i" || return; done
    cat "$answers".?
}

orders() { sql "SELECT count(*) FROM orders WHERE item = 'item $item'"; }

# A server that nginx gave up on may still be at work.
await_servers() {
    local i
    for ((i = 0; i < 600; i++)); do
        if [ "$(sql "SELECT count(*) FROM pg_stat_activity WHERE usename = 'shop'")" -eq 0 ]; then return; fi
        sleep 0.05
    done
    return 1
}

# Requests that nginx sent to both.
sent_twice() { sql "SELECT count(*) FROM (SELECT FROM arrival WHERE path = '$1' GROUP BY request HAVING count(DISTINCT server) = 2) AS twice"; }

answered_well() {
    [ "$(cat "$answers".? | grep -c '^{"order": [0-9]*} 201$')" -eq 4 ]
    # Each client was told of an order of its own.
    [ "$(sort -u "$answers".? | wc -l)" -eq 4 ]
}

@test "without a guard: a server that hangs up after the work, and nginx has the order made twice" {
    order_four_times /plain/orders 'X-Fault: drop'
    answered_well
    retried=$(sent_twice /plain/orders)
    [ "$retried" -gt 0 ]
    [ "$(orders)" -eq $((4 + retried)) ]
}

for_each_fault() {
    local before
    before=$(sent_twice /orders)
    order_four_times /orders "X-Fault: $1"
    answered_well
    [ "$(sent_twice /orders)" -gt "$before" ]
    await_servers
    [ "$(orders)" -eq 4 ]
}

@test "a server that hangs up after the work: nginx asks the other, one order, its answer" { for_each_fault drop; }

@test "a server that keeps silent after the work: nginx asks the other, one order, its answer" { for_each_fault hang; }

@test "a server that keeps silent in the middle of the work: the other waits for it, one order, its answer" { for_each_fault slow; }

@test "the client's own X-Request-Id and Idempotency-Key arrive, and its own retry is a replay" {
    run order /orders 'X-Request-Id: from-the-client'
    [ "$status" -eq 0 ]
    first_answer=$output
    grep -qix $'x-request-id: from-the-client\r' "$headers"
    [ "$(order /orders 'X-Request-Id: from-the-client')" = "$first_answer" ]
    [ "$(orders)" -eq 1 ]
    grep -qi '^idempotent-replayed: true' "$headers"

    first_answer=$(order /orders 'Idempotency-Key: "from-the-client-too"')
    [ "$(order /orders 'Idempotency-Key: from-the-client-too' 'X-Fault: drop')" = "$first_answer" ]
    [[ $(item=other order /orders 'Idempotency-Key: "from-the-client-too"') == *'"code": "mismatch"'*' 422' ]]
    [ "$(orders)" -eq 2 ]
    [ "$(sql "SELECT count(*) FROM arrival WHERE request = 'from-the-client'")" -eq 2 ]
}

@test "requests without a name of their own are told apart" {
    order /orders
    order /orders
    [ "$(orders)" -eq 2 ]
}
