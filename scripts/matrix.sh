#!/usr/bin/env bash
# `make check-all` in each environment that is supported: a Debian suite of its own in a directory, made with debootstrap. Needs root.
#
#   matrix.sh [--quick] [ENVIRONMENT,...]  all of them, or some; --quick: `make check`
#   matrix.sh --clean                      remove the environments
#
# The environments are kept in $IDEM_MATRIX (/var/cache/idem-matrix), some 3 GB each; what the tests need is installed there
# once, by scripts/deps.sh, and ccache keeps there what was compiled. Debian's mirror is the one that this machine's apt is set to.
# Logs are kept in build/matrix.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

die() { echo "matrix.sh: $*" >&2; exit 1; }

all=(bookworm trixie forky)
home=${IDEM_MATRIX:-/var/cache/idem-matrix}
logs=$PWD/build/matrix

is_root || die "needs root: it makes and enters root directories (debootstrap, unshare, chroot)"

target=check-all
case ${1:-} in
    --clean) rm -rf --one-file-system "$home"; exit ;;
    --quick) target=check; shift ;;
    --*) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
IFS=, read -r -a environments <<<"${1:-$(IFS=,; echo "${all[*]}")}"
for environment in "${environments[@]}"; do
    [[ " ${all[*]} " == *" $environment "* ]] || die "there is no environment \"$environment\"; there are ${all[*]}"
done

# --- Making an environment -----------------------------------------------------------------------------------------------

mirror() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
        awk '!found && /\/debian\/$/ {print; found = 1} END {exit !found}' ||
        die "apt is set to no mirror of Debian's, or has no lists; run \`apt-get update\`"
}

# debootstrap knows the suites of its own time only; they have been made alike for long.
script_of() {
    if [ -e "/usr/share/debootstrap/scripts/$1" ]; then echo "$1"; else echo sid; fi
}

# Complete with the file `ready`, else it is begun anew. A suite in testing counts as expired between its releases.
make_environment() {
    local suite=$1 root=$home/$1 mirror
    if [ -e "$root.ready" ]; then return; fi
    mirror=$(mirror) || return
    rm -rf --one-file-system "$root"
    mkdir -p "$home"
    debootstrap --variant=minbase "$suite" "$root" "$mirror" "/usr/share/debootstrap/scripts/$(script_of "$suite")" || return
    echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/90idem"
    # Packages are to start no services, and PostgreSQL's no cluster.
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod +x "$root/usr/sbin/policy-rc.d"
    mkdir -p "$root/etc/postgresql-common"
    echo 'create_main_cluster = false' >"$root/etc/postgresql-common/createcluster.conf"
    touch "$root.ready"
}

# --- Entering it ---------------------------------------------------------------------------------------------------------

# enter ENVIRONMENT COMMAND ...: mounts and processes of its own, which are gone when the command ends, however it ends.
enter() {
    local root=$home/$1
    shift
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    env --ignore-environment HOME=/root LANG=C.UTF-8 TERM=dumb CMAKE_CXX_COMPILER_LAUNCHER=ccache \
        PATH=/usr/lib/ccache:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        unshare --mount --pid --ipc --uts --fork --kill-child bash -c '
            set -e
            root=$1
            shift
            mount -t proc proc "$root/proc"
            mount --rbind /dev "$root/dev"
            mount -t tmpfs tmpfs "$root/dev/shm"
            mount -t sysfs -o ro sysfs "$root/sys"
            status=0
            chroot "$root" "$@" || status=$?
            exit "$status"' enter "$root" "$@" </dev/null
}

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

# What a clean clone of it would have, with what is changed here.
copy_sources() {
    local to=$home/$1/idem status package
    rm -rf "$to"
    mkdir "$to"
    # What npm fetches is fetched once, here: registries and certificates are this machine's.
    for package in $(git ls-files '*/package-lock.json' | xargs --max-args=1 dirname); do
        status=0
        npm_ci "$package" || status=$?
        if [ "$status" -eq 69 ]; then continue; fi # the tests that need it are skipped there
        [ "$status" -eq 0 ] && mkdir -p "$to/build/$package" && cp -R "build/$package/." "$to/build/$package" || return
    done
    git ls-files -z | while IFS= read -r -d '' file; do if [ -e "$file" ]; then printf '%s\0' "$file"; fi; done |
        tar --create --null --files-from=- | tar --extract --no-same-owner --directory="$to"
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
