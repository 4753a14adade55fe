#!/usr/bin/env bash
# `make check-all` in each environment that is supported: a Debian suite of its own in a directory, made with debootstrap. Needs root.
#
#   matrix.sh [--quick] [ENVIRONMENT,...]  all of them, or some; --quick: `make check`
#   matrix.sh --clean                      remove the environments
#
# The environment `next` has PostgreSQL's next version, and runs only if it is named.
#
# The environments are kept in $IDEM_MATRIX (/var/cache/idem-matrix), some 3 GB each; what the tests need is installed there
# once, by scripts/deps.sh, and ccache keeps there what was compiled. Debian's mirror is the one that this machine's apt is set to.
# Logs are kept in build/matrix.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
source scripts/roots.sh

home=${IDEM_MATRIX:-/var/cache/idem-matrix}
root_environment+=(CMAKE_CXX_COMPILER_LAUNCHER=ccache PATH="/usr/lib/ccache:$root_path")
logs=$PWD/build/matrix

is_root || die "needs root: it makes and enters root directories (debootstrap, unshare, chroot)"

target=check-all
case ${1:-} in
    --clean) rm -rf --one-file-system "$home"; exit ;;
    --quick) target=check; shift ;;
    --*) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
environments=()
supported=$(IFS=,; echo "${all[*]}")
all+=(next)
read_suites environments "${1:-$supported}"

# --- Filling an environment ----------------------------------------------------------------------------------------------

# The servers of the suites before, with idem as it was installed there: what remains after a dist-upgrade, for the test of
# pg_upgrade. After deps.sh, which would take one for the server to build for.
add_older_servers() {
    local environment=$1 older
    for older in "${all[@]}"; do
        if [ "$older" = "$environment" ]; then return; fi
        add_server_of "$older" "$environment" || return
    done
}

# Its own is the newest there.
add_server_of() {
    local older=$home/$1 root=$home/$2 major mirror
    major=$(printf '%s\n' "$older"/usr/lib/postgresql/*/lib/idem.so | sed 's|/lib/idem.so$||; s|.*/||' | sort -n | tail -n 1)
    if [ ! -e "$older/usr/lib/postgresql/$major/lib/idem.so" ]; then return 0; fi
    if [ ! -e "$root/usr/lib/postgresql/$major/bin/postgres" ]; then
        mirror=$(mirror) || return
        echo "deb $mirror $1 main" >"$root/etc/apt/sources.list.d/$1.list"
        enter "$2" apt-get update --quiet --quiet || return
        enter "$2" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --quiet --no-install-recommends \
            "postgresql-$major" || return
    fi
    cp "$older/usr/lib/postgresql/$major/lib/idem.so" "$root/usr/lib/postgresql/$major/lib/" &&
        cp "$older/usr/share/postgresql/$major/extension"/idem* "$root/usr/share/postgresql/$major/extension/"
}

make_environment() {
    if [ "$1" = next ]; then make_next; else make_root "$1"; fi
}

# Testing with the newest server of Debian experimental. Only that server's packages come from there. pgTAP, which is SQL, is that of
# the server before.
make_next() {
    local root=$home/next mirror major
    if [ -e "$root.ready" ]; then return; fi
    make_root forky || return
    rm -rf --one-file-system "$root"
    cp -a --reflink=auto "$home/forky" "$root" && copy_sources next && enter next /idem/scripts/deps.sh ccache || return
    mirror=$(mirror) || return
    echo "deb $mirror experimental main" >"$root/etc/apt/sources.list.d/experimental.list"
    apt_in next update || return
    major=$(enter next apt-cache pkgnames postgresql-server-dev- | sed -n 's/^postgresql-server-dev-\([0-9]*\)$/\1/p' | sort -n | tail -n 1)
    if [ -e "$root/usr/lib/postgresql/$major/bin/postgres" ]; then echo 'Debian experimental has no newer server than testing'; return 1; fi
    printf 'Package: src:postgresql-%s\nPin: release a=experimental\nPin-Priority: 990\n' "$major" >"$root/etc/apt/preferences.d/next"
    # libpq.pc of 19~rc1 requires libcurl's, on which libpq-dev does not depend.
    apt_in next install "postgresql-$major" "postgresql-server-dev-$major" libcurl4-openssl-dev || return
    cp "$root/usr/share/postgresql/$((major - 1))/extension"/pgtap* "$root/usr/share/postgresql/$major/extension/" && touch "$root.ready"
}

# What a clean clone of it would have, with what is changed here.
copy_sources() {
    local to=$home/$1/idem status package
    rm -rf "$to"
    mkdir "$to"
    # What npm fetches is fetched once, here: registries and certificates are this machine's.
    for package in $(git ls-files 'tests/*/package.json' | sed 's|^tests/||; s|/package.json$||'); do
        status=0
        npm_ci "$package" || status=$?
        if [ "$status" -eq 69 ]; then continue; fi # the tests that need it are skipped there
        [ "$status" -eq 0 ] || return
    done
    if [ -d build/npm ]; then mkdir -p "$to/build" && cp -R build/npm "$to/build" || return; fi
    copy_tree "$to"
}

run_checks() {
    local environment=$1
    make_environment "$environment" && copy_sources "$environment" && enter "$environment" /idem/scripts/deps.sh ccache &&
        add_older_servers "$environment" && enter "$environment" make -C /idem "$target"
}

# --- The table -----------------------------------------------------------------------------------------------------------

# The lines "suite passed failed skipped seconds" that check.sh ends with.
results_of() {
    awk 'NF == 5 && $1 == "suite" {rows = 1; next} !NF {rows = 0} rows {print}' "$logs/$1.log"
}

versions_of() {
    enter "$1" sh -c 'printf "PostgreSQL %s, libpqxx %s, g++ %s" "$(pg_config --version | sed "s/^PostgreSQL \([0-9.]*\).*/\1/")" \
        "$(pkg-config --modversion libpqxx)" "$(g++ -dumpfullversion)"' 2>/dev/null || echo 'not made'
}

# Suites down, environments across: passed/failed. What was not run has no figures; an environment that ended without any is one
# failure.
print_table() {
    local environment
    for environment in "${environments[@]}"; do
        results_of "$environment" | sed "s/^/$environment /"
    done | awk -v environments="${environments[*]}" '
        {
            if (!($2 in seen)) { suites[++count] = $2; seen[$2] = 1 }
            cell[$1, $2] = $3 "/" $4
            passed[$1] += $3; failed[$1] += $4; skipped[$1] += $5
            any[$1] = 1
        }
        END {
            n = split(environments, name, " ")
            printf "%-12s", "suite"
            for (e = 1; e <= n; e++) printf "%14s", name[e]
            print ""
            for (s = 1; s <= count; s++) {
                printf "%-12s", suites[s]
                for (e = 1; e <= n; e++) printf "%14s", ((name[e], suites[s]) in cell ? cell[name[e], suites[s]] : "-")
                print ""
            }
            printf "%-12s", "all"
            for (e = 1; e <= n; e++) {
                if (!any[name[e]]) failed[name[e]] = 1
                printf "%14s", passed[name[e]] + 0 "/" failed[name[e]]
                all_passed += passed[name[e]]; all_failed += failed[name[e]]; all_skipped += skipped[name[e]]
            }
            printf "\n\n%d passed, %d failed", all_passed, all_failed
            if (all_skipped) printf ", %d skipped", all_skipped
            print ""
        }'
}

# -------------------------------------------------------------------------------------------------------------------------

command -v debootstrap >/dev/null || scripts/deps.sh debootstrap
command -v npm >/dev/null || scripts/deps.sh nodejs npm
mkdir -p "$logs"
failed=
for environment in "${environments[@]}"; do
    SECONDS=0
    printf '%s: ' "$environment"
    if run_checks "$environment" >"$logs/$environment.log" 2>&1; then verdict=passed; else verdict=FAILED failed=1; fi
    printf '%s (%s min): %s\n' "$verdict" "$(((SECONDS + 59) / 60))" "$(versions_of "$environment")"
    if [ "$verdict" = FAILED ]; then
        echo "--- from build/matrix/$environment.log"
        grep -E 'FAILED|^not ok|error:' "$logs/$environment.log" | head -n 50 || true
        tail -n 40 "$logs/$environment.log"
        echo '---'
    fi
done
echo
print_table
[ -z "$failed" ]
