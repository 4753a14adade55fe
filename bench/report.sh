# Makes the page out of the samples. Sourced by run.sh.
# shellcheck shell=bash

# What a run leaves for the next one to be compared with.
figures=$scratch/performance.tsv
figures_before=docs/performance.tsv

make_figures() {
    {
        printf '# run\tmake bench%s\n# date\t%s\n# machine\t%s\n' "$kind" "$(date --utc +%F)" "$(machine | sed 's/^- //' | paste -s -d ';')"
        awk -f bench/samples.awk -f bench/figures.awk "$samples"
    } >"$figures"
}

report() {
    cat <<TEXT
# Performance

$(awk -f bench/lead.awk bench/lead.tsv "$figures")

![Claims a second, by contender](plots/claim.svg)
$(plot batch 'Keys a second in batches, by contender')
$(plot growth 'Claims among up to ten million keys')

This page was made by \`$command_line\` on $(date --utc +%F), in $((SECONDS / 60)) min $((SECONDS % 60)) s; the next run overwrites it.
\`make plots\` draws the figures into \`build/plots\`. The site shows these plots.

The contenders of a table take turns on one cluster: $rounds rounds of A B C, A B C, ... with runs of $run_seconds s, or fewer and shorter
ones where a file in \`bench/groups\` says so. The figures are medians over the rounds, with the least and the greatest. "idem / it" divides the first line of a case by the other line, round by round; what
slows the machine down for a while slows both. Of rates, more is better; of times and costs, less. Every contender's statements are in \`bench/contenders\`, the targets in \`bench/targets.tsv\`.

## Targets

TEXT
    tables ''
    plot targets 'Each target: how many times its bound was reached'
    beside_the_run_before
    cat <<TEXT

## Machine

$(machine)
- measured: idem $(sql -c "SELECT extversion FROM pg_extension WHERE extname = 'idem'")$commit
- before a run on claims, requests or unique inserts, the table holds $prefill keys; those of the other row flows hold $rows rows
- seconds per group: $(seconds_per_group)
TEXT
    local name
    for name in "${groups[@]}"; do
        [ -n "$(tables_of "$name")" ] || continue
        printf '\n## %s\n\n' "${name^}"
        introduction "$name"
        case $name in rings) plot "$name" "The figures of the group $name" ;; esac
        tables_of "$name"
    done
}

# tables GROUP, or the summary for ''.
tables() {
    awk -v list="$1" -f bench/samples.awk -f bench/table.awk -f bench/report.awk bench/targets.tsv bench/reasons.tsv "$samples"
}

# A group may have tables of its own making.
tables_of() { if declare -F "tables_$1" >/dev/null; then "tables_$1"; else tables "$1"; fi; }

# The comment that opens the group's file.
introduction() { sed -n '/^#/!q; /shellcheck/d; s/^# //p' "bench/groups/$1.sh"; }

# plot NAME ALTERNATIVE_TEXT: where the site shows it (scripts/site.py).
plot() { printf '\n<!-- plot %s: %s -->\n' "$1" "$2"; }

# header NAME FILE: of a file of figures.
header() { sed -n "s/^# $1\t//p" "$2"; }

# Nothing for a run of some groups, or if there is none before.
beside_the_run_before() {
    if [ -n "$ONLY" ] || [ ! -e "$figures_before" ]; then return; fi
    printf '\n## Beside the run before\n\n'
    if [ "$(header run "$figures_before")" != "$(header run "$figures")" ]; then
        echo "The run before, of $(header date "$figures_before"), was \`$(header run "$figures_before")\`: it is not compared."
    elif [ "$(header machine "$figures_before")" != "$(header machine "$figures")" ]; then
        echo "The run before, of $(header date "$figures_before"), was on another machine or under other settings: it is not compared."
    else
        printf 'The run before was on %s. ' "$(header date "$figures_before")"
        awk -f bench/table.awk -f bench/compare.awk "$figures_before" "$figures"
    fi
}

# All that two runs must have in common to be compared.
machine() {
    cat <<TEXT
- processor: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $cores of $(nproc --all) processors$(hypervisor)
- memory: $(awk '/^MemTotal/ {printf "%.0f GB", $2 / 1048576}' /proc/meminfo)
- file system of the cluster: $(file_system)
- system: $(uname -sr), $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)
- server: PostgreSQL $(sql -c 'SHOW server_version')
- settings: $(settings)
- clients: pgbench $("$bindir/pgbench" --version | awk '{print $3}') with \`-M prepared\`, and the programs in \`bench\` (libpqxx $(pkg-config --modversion libpqxx)), over a Unix socket
TEXT
    redis_line
}

# Only where it was measured.
redis_line() {
    if cut -f 4 "$samples" | grep -q '^redis'; then
        printf -- '- Redis %s; where it stands in a table, PostgreSQL is reached over TCP as well, at 127.0.0.1\n' "$("$scratch/redis-server" --version | sed 's/.* v=\([^ ]*\).*/\1/')"
    fi
}

hypervisor() {
    if grep -qw hypervisor /proc/cpuinfo; then
        local kind
        kind=$(systemd-detect-virt --vm 2>/dev/null) || true
        printf ', of a virtual machine%s' "${kind:+ ($kind)}"
    fi
}

# Of the cluster, with its device. stat knows ext4 as ext2/ext3 only.
file_system() {
    findmnt --noheadings --output FSTYPE,SOURCE --target "$PGHOST" 2>/dev/null | sed 's/  */ on /' | grep . ||
        stat --file-system --format=%T "$PGHOST"
}

# Those that matter here, and all that were not left as they are.
settings() {
    sql -c "SELECT string_agg(format('\`%s=%s\`', name, current_setting(name)), ', ' ORDER BY name) FROM pg_settings
            WHERE name IN ('fsync', 'synchronous_commit', 'wal_sync_method', 'full_page_writes', 'autovacuum', 'jit', 'wal_level',
                           'max_connections')
               OR source = 'configuration file' AND name NOT IN ('listen_addresses', 'port', 'unix_socket_directories')
                  AND name !~ '^(lc_|default_text|dynamic_shared|log_|DateStyle|TimeZone)'"
}

# Where there is one; asked before the run, for it may be another one afterwards.
commit() {
    if git rev-parse --quiet --verify HEAD >/dev/null 2>&1; then
        printf ' of commit %s%s' "$(git rev-parse --short HEAD)" "$(git diff --quiet HEAD -- extension sql client bench || echo ', changed')"
    fi
}

seconds_per_group() {
    local i total=0
    for ((i = 0; i < ${#groups[@]}; i++)); do
        printf '%s %s, ' "${groups[i]}" "${group_seconds[i]}"
        total=$((total + group_seconds[i]))
    done
    echo "together $total"
}

publish() {
    cp "$scratch/report.md" docs/performance.md
    cp "$figures" "$figures_before"
    bench/plots.sh "$scratch/plots" && cp "$scratch/plots/claim.svg" docs/plots
}

# replace_figures PAGE: what stands between its two marks becomes the standard input.
replace_figures() {
    {
        sed '/^<!-- figures/q' "$1"
        cat
        sed -n '/^<!-- end of figures/,$p' "$1"
    } >"$scratch/page.md"
    cp "$scratch/page.md" "$1"
}
