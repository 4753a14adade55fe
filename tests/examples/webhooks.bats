# Webhooks of five senders, delivered to an endpoint in C++ and one in Node, both of which are killed: each takes effect once.
#
# IDEM_WEBHOOKS is how many; 10,000 take some minutes.

load helper

webhooks=${IDEM_WEBHOOKS:-1000}

setup_file() {
    export root
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    cd "$root"
    local status=0
    npm_ci examples || status=$?
    if [ "$status" -eq 69 ]; then skip "the npm registry cannot be reached"; fi
    [ "$status" -eq 0 ]
    cp examples/webhooks/endpoint.js "$copy"
    cmake -S . -B build/cmake >/dev/null
    cmake --build build/cmake --target idem-webhooks >/dev/null
    make_database webhooks examples/webhooks/shop.sql
    sql "$(<examples/webhooks/sources.sql)"
    export cpp_port node_port node_copy
    cpp_port=$(free_port) node_port=$(free_port) node_copy=$copy
    start cpp
    start node
    await_port "$cpp_port"
    await_port "$node_port"
}

teardown_file() {
    end sender KILL
    end cpp KILL
    end node KILL
}

start() {
    case $1 in
        cpp) spawn cpp "$root/build/cmake/bin/idem-webhooks" "$cpp_port" ;;
        node) spawn node node "$node_copy/endpoint.js" "$node_port" ;;
    esac
}

pause() { sleep "0.1$((RANDOM % 9))"; }

@test "webhooks at two endpoints, a third of them repeated, the endpoints and their sessions killed: all are answered" {
    spawn sender "$PYTHON" "$root/examples/webhooks/sender.py" "$webhooks" "http://127.0.0.1:$cpp_port" "http://127.0.0.1:$node_port"
    local sender kills=0
    sender=$(cat "$IDEM_SOCKETS/examples/sender.pid")
    while lives "$sender"; do
        pause
        case $((kills++ % 3)) in
            0) end cpp KILL && start cpp ;;
            1) end node KILL && start node ;;
            2) sql "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'shop'" ;;
        esac
    done
    cat "$IDEM_SOCKETS/examples/sender.log"
    [ "$kills" -ge 3 ]
    [[ $(tail -n 1 "$IDEM_SOCKETS/examples/sender.log") =~ ^([0-9]+)" accepted, "([0-9]+)" duplicate, "([0-9]+)" refused, "([0-9]+)" retried"$ ]]
    # Some were committed by an endpoint that did not live to say so.
    [ "${BASH_REMATCH[1]}" -le "$webhooks" ]
    [ $((BASH_REMATCH[1] + BASH_REMATCH[2])) -eq $((webhooks + webhooks / 3)) ]
    [ "${BASH_REMATCH[3]}" -gt 0 ]
    [ "${BASH_REMATCH[4]}" -gt 0 ]
}

@test "… each took effect once, and no forged one did" {
    [ "$(sql "SELECT count(*), count(DISTINCT event), sum(amount) FROM credit")" = "$webhooks|$webhooks|$((webhooks * (webhooks + 1) / 2))" ]
    [ "$(sql "SELECT count(*) FROM idem.idem_keys WHERE scope = 'webhook'")" -eq "$webhooks" ]
}
