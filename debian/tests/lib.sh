# What the tests of the installed packages share: a private server, which ends with the test. Sourced in the tree's root directory.
# shellcheck shell=bash

majors=(/usr/share/postgresql/*/extension/idem.control)
major=$(cut -d/ -f5 <<<"${majors[-1]}")
export PG_CONFIG=/usr/lib/postgresql/$major/bin/pg_config
source scripts/lib.sh

cluster=package-$$
stop_cluster() { scripts/cluster.sh stop "$cluster"; }

# start_cluster [SETTING=VALUE ...]
start_cluster() {
    at_exit stop_cluster
    scripts/cluster.sh start "$cluster" fsync=off "$@"
    eval "$(scripts/cluster.sh env "$cluster")"
}

sql() { psql --no-psqlrc --quiet --no-align --tuples-only --set=ON_ERROR_STOP=1 "$@"; }

# expect WHAT WANTED FOUND
expect() {
    if [ "$2" = "$3" ]; then
        echo "ok - $1"
    else
        printf 'not ok - %s\n# wanted: %s\n# found:  %s\n' "$1" "$2" "$3"
        exit 1
    fi
}

# expect_worker: the launcher starts with the server, a moment after it takes connections.
expect_worker() {
    local found
    for _ in $(seq 100); do
        found=$(sql --command="SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'idem launcher'")
        if [ "$found" = 1 ]; then break; fi
        sleep 0.1
    done
    expect 'the background worker is there' 1 "$found"
}
