# Root directories with a Debian suite each, for the matrix and the packages. Sourced, never run; the script that sources it sets
# `home`, the directory of the roots. Needs root.
# shellcheck shell=bash disable=SC2154

all=(bookworm trixie forky)

die() { echo "${0##*/}: $*" >&2; exit 1; }

# read_suites ARRAY LIST: the suites of a list with commas, all of them if it is empty.
read_suites() {
    local -n array=$1
    local suite
    IFS=, read -r -a array <<<"${2:-$(IFS=,; echo "${all[*]}")}"
    for suite in "${array[@]}"; do
        [[ " ${all[*]} " == *" $suite "* ]] || die "there is no environment \"$suite\"; there are ${all[*]}"
    done
}

root_path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# What commands in a root have as their environment; a later one of the same name counts.
root_environment=(HOME=/root LANG=C.UTF-8 TERM=dumb PATH="$root_path")

# --- Making a root -------------------------------------------------------------------------------------------------------

mirror() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
        awk '!found && /\/debian\/$/ {print; found = 1} END {exit !found}' ||
        die "apt is set to no mirror of Debian's, or has no lists; run \`apt-get update\`"
}

# debootstrap knows the suites of its own time only; they have been made alike for long.
script_of() {
    if [ -e "/usr/share/debootstrap/scripts/$1" ]; then echo "$1"; else echo sid; fi
}

# make_root SUITE. Complete with the file `ready`, else made again from the start. A suite in testing counts as expired between its releases.
make_root() {
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

# enter ROOT COMMAND ...: mounts and processes of its own, which are gone when the command ends, however it ends.
enter() {
    local root=$home/$1
    shift
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    env --ignore-environment "${root_environment[@]}" \
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

# --- Filling it ----------------------------------------------------------------------------------------------------------

# copy_tree DIRECTORY: what a clean clone would have, with what is changed here. It knows its commit, as an archive does.
copy_tree() {
    git ls-files -z | while IFS= read -r -d '' file; do if [ -e "$file" ]; then printf '%s\0' "$file"; fi; done |
        tar --create --null --files-from=- | tar --extract --no-same-owner --directory="$1" &&
        scripts/source-id.sh >"$1/scripts/source-id"
}

# apt_in ROOT COMMAND ...
apt_in() {
    local root=$1
    shift
    enter "$root" env DEBIAN_FRONTEND=noninteractive apt-get --yes --quiet --quiet -o Dpkg::Use-Pty=0 --no-install-recommends "$@"
}

# renew_root ROOT: with the packages that its suite has today.
renew_root() { apt_in "$1" update && apt_in "$1" dist-upgrade; }

# copy_root SUITE NAME: SUITE.NAME, as debootstrap made the suite, with fresh lists.
copy_root() {
    local root=$home/$1.$2
    make_root "$1" || return
    rm -rf --one-file-system "$root" "$root.ready"
    cp -a --reflink=auto "$home/$1" "$root" && apt_in "$1.$2" update
}

# keep_root SUITE NAME COMMAND ...: the same, filled by the command; one that is complete is left as it is.
keep_root() {
    local root=$home/$1.$2
    if [ -e "$root.ready" ]; then return; fi
    copy_root "$1" "$2" && "${@:3}" && touch "$root.ready"
}
