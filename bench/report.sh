# Makes the page out of the samples. Sourced by run.sh.
# shellcheck shell=bash

report() {
    cat <<TEXT
# Performance

This page was made by \`$command_line\` on $(date --utc +%F), in $((SECONDS / 60)) min $((SECONDS % 60)) s; the next run overwrites it.

The contenders of a table take turns on one cluster: $rounds rounds of A B C, A B C, ... with runs of $run_seconds s. The figures are medians
over the rounds, with the least and the greatest. "idem / it" divides the first line of a case by the other line, round by round; what
slows the machine down for a while slows both. Of rates, more is better; of times and costs, less. Every contender's statements are in \`bench/contenders\`, the targets in \`bench/targets.tsv\`.

## Targets

$(tables '')

## Machine

$(machine)
TEXT
    local name
    for name in "${groups[@]}"; do
        [ -n "$(tables_of "$name")" ] || continue
        printf '\n## %s\n\n' "${name^}"
        introduction "$name"
        tables_of "$name"
    done
}

# tables GROUP, or the summary for ''.
tables() { awk -v group="$1" -f bench/report.awk bench/targets.tsv "$samples"; }

# A group may have tables of its own making.
tables_of() { if declare -F "tables_$1" >/dev/null; then "tables_$1"; else tables "$1"; fi; }

# The comment that opens the group's file.
introduction() { sed -n '/^#/!q; /shellcheck/d; s/^# //p' "bench/groups/$1.sh"; }

machine() {
    cat <<TEXT
- processor: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $cores cores
- memory: $(awk '/^MemTotal/ {printf "%.0f GB", $2 / 1048576}' /proc/meminfo), file system of the cluster: $(stat --file-system --format=%T "$scratch")
- kernel: $(uname -sr), $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)
- server: PostgreSQL $(sql -c 'SHOW server_version'), idem $(sql -c "SELECT extversion FROM pg_extension WHERE extname = 'idem'")
- settings: $(settings)
- clients: pgbench $("$bindir/pgbench" --version | awk '{print $3}') with \`-M prepared\`, and the programs in \`bench\`, over a Unix socket
- before a run on claims, requests or unique inserts, the table holds $prefill keys; those of the other row flows hold $rows rows
TEXT
    redis_line
}

# Only where it was measured.
redis_line() {
    if cut -f 4 "$samples" | grep -qx redis; then
        printf -- '- Redis %s, over a Unix socket too\n' "$("$scratch/redis-server" --version | sed 's/.* v=\([^ ]*\).*/\1/')"
    fi
}

settings() {
    sql -c "SELECT string_agg(format('\`%s=%s\`', name, current_setting(name)), ', ' ORDER BY name) FROM pg_settings
            WHERE name IN ('fsync', 'synchronous_commit', 'wal_sync_method', 'full_page_writes', 'shared_buffers',
                           'max_wal_size', 'checkpoint_timeout', 'autovacuum', 'jit', 'wal_level', 'max_connections')"
}
