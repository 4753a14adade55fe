#!/usr/bin/env bash
# Debian packages of this tree, built and tried in root directories that debootstrap makes. Needs root.
#
#   packages.sh build [SUITE,...]      into build/packages/SUITE, and lintian on them; without a suite, this machine's
#   packages.sh check [SUITE,...]      install, use, upgrade and purge what was built, in fresh roots; without a suite, all. TAP
#   packages.sh reproduce [SUITE,...]  build again, in another directory and time zone, and compare the bytes; TAP
#   packages.sh --clean                remove the roots
#
# The roots are kept in $IDEM_PACKAGES (/var/cache/idem-packages): one with what the build needs and one with lintian, some 1.5 GB for
# each suite. What a test installs is in a copy that is removed. Logs are kept in build/packages/SUITE.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
source scripts/roots.sh
source scripts/tap.sh

home=${IDEM_PACKAGES:-/var/cache/idem-packages}
out=$PWD/build/packages
suites=()

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

# --- Building ------------------------------------------------------------------------------------------------------------

version() { dpkg-parsechangelog --show-field Version; }

# mark_suite SUITE SOURCE: a released Debian gets a version of its own, below that of the next: an upgrade of Debian takes the next one's
# packages. Testing has the version as it is.
mark_suite() {
    local changelog=$home/$1.build$2/debian/changelog release second_later
    # shellcheck disable=SC2016 # of the root
    release=$(enter "$1.build" sh -c '. /etc/os-release && echo "${VERSION_ID:-}"') || return
    if [ -z "$release" ]; then return; fi
    second_later=@$(($(dpkg-parsechangelog --show-field Timestamp) + 1))
    printf 'idem (%s~deb%su1) %s; urgency=medium\n\n  * Rebuild for Debian %s.\n\n -- %s  %s\n\n' "$(version)" "$release" "$1" "$release" \
        "$(dpkg-parsechangelog --show-field Maintainer)" "$(LC_ALL=C date --utc --date="$second_later" '+%a, %d %b %Y %T +0000')" | cat - debian/changelog >"$changelog"
}

upstream() { version | sed 's/-[^-]*$//'; }

add_builder() {
    enter "$1.build" useradd --create-home builder && apt_in "$1.build" install dpkg-dev postgresql-common
}

# build_in SUITE DIRECTORY [SETTING=VALUE ...]: the tree goes to the directory, and the packages beside it. debian/control is that of
# the suite's servers. As an ordinary user.
build_in() {
    local root=$home/$1.build directory=$2 source
    source=$directory/idem-$(upstream)
    keep_root "$1" build add_builder "$1" || return
    rm -rf "${root:?}$directory" && mkdir -p "$root$source" && copy_tree "$root$source" || return
    tar --create --gzip --sort=name --owner=0 --group=0 --mtime="@$(dpkg-parsechangelog --show-field Timestamp)" --exclude=debian \
        --directory="$root$directory" --file="$root$directory/idem_$(upstream).orig.tar.gz" "idem-$(upstream)" || return
    mark_suite "$1" "$source" && renew_root "$1.build" && apt_in "$1.build" install postgresql-server-dev-all &&
        enter "$1.build" sh -c 'cd "$1" && pg_buildext updatecontrol' sh "$source" &&
        apt_in "$1.build" build-dep "$source" &&
        enter "$1.build" chown -R builder: "$directory" &&
        enter "$1.build" runuser --user builder -- env HOME=/home/builder DEB_BUILD_OPTIONS="parallel=$(nproc)" "${@:3}" \
            sh -c 'cd "$1" && dpkg-buildpackage -sa --unsigned-source --unsigned-changes' sh "$source"
}

build() {
    build_in "$1" /build &&
        find "$out/$1" -maxdepth 1 '(' -name 'idem_*' -o -name '*.deb' ')' -delete &&
        find "$home/$1.build/build" -maxdepth 1 -type f -exec cp {} "$out/$1" \;
}

add_lintian() { apt_in "$1.lintian" install lintian; }

# What a tag of debian/lintian-suppressed says is known, and why is written there.
lint() {
    keep_root "$1" lintian add_lintian "$1" && renew_root "$1.lintian" || return
    local root=$home/$1.lintian
    rm -rf "$root/packages" && mkdir "$root/packages" &&
        cp "$out/$1"/idem_* "$out/$1"/*.deb "$root/packages" && cp debian/lintian-suppressed "$root/packages/suppressed" &&
        enter "$1.lintian" sh -c 'cd /packages && lintian --allow-root --fail-on error,warning --info --suppress-tags-from-file suppressed *.changes'
}

# --- Checking ------------------------------------------------------------------------------------------------------------

# install_packages SUITE PACKAGE ...: what was built of them, with what they depend on.
install_packages() {
    local suite=$1 package files=()
    shift
    for package in "$@"; do files+=("$out/$suite/$package"_*.deb); done
    mkdir -p "$home/$suite.check/packages" && cp "${files[@]}" "$home/$suite.check/packages" &&
        apt_in "$suite.check" install "${files[@]/#"$out/$suite"//packages}"
}

major_of() { find "$out/$1" -name 'postgresql-*-idem_*.deb' -printf '%f\n' | sed 's/^postgresql-\([0-9]*\)-.*/\1/' | sort -n | tail -n 1; }

has_no_compiler() { enter "$1.check" sh -c 'for compiler in cc c++ gcc g++ clang; do if command -v "$compiler"; then exit 1; fi; done'; }

package_test() { enter "$1.check" sh -c 'cd /idem && "debian/tests/$1"' sh "$2"; }

# The package of this version with a higher one: a newer revision, with the extension's SQL of a version that tests/recovery has.
make_next_package() {
    local root=$home/$1.check major=$2 work=$home/$1.check/packages/next extensions current next
    extensions=$work/usr/share/postgresql/$major/extension
    current=$(sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" extension/idem.control)
    next=${current%%.*}.90.0 # a library serves the SQL of its own major version
    rm -rf "$work" && dpkg-deb --raw-extract "$root/packages/postgresql-$major-idem"_*.deb "$work" &&
        sed -i "s/^Version: .*/&+next1/" "$work/DEBIAN/control" &&
        sed -i "s/^default_version.*/default_version = '$next'/" "$extensions/idem.control" &&
        cp tests/recovery/upgrade/next.sql "$extensions/idem--$current--$next.sql" &&
        dpkg-deb --root-owner-group --build "$work" "$root/packages/next.deb"
}

is_purged() {
    local packages left
    # shellcheck disable=SC2016 # dpkg-query's
    packages=$(enter "$1.check" dpkg-query --show --showformat '${db:Status-Status} ${Package}\n' | sed -n 's/^installed \(.*idem.*\)/\1/p') || return
    # shellcheck disable=SC2086 # words
    apt_in "$1.check" purge $packages || return
    left=$(enter "$1.check" find / -xdev -name '*idem*' -not -path '/idem*' -not -path '/packages*' -not -path '/tmp/*' \
        -not -path /etc/apt/apt.conf.d/90idem)
    echo "left: $left"
    [ -z "$left" ]
}

use_packages() {
    local suite=$1 major
    major=$(major_of "$suite") && [ -n "$major" ] || die "build/packages/$suite has no packages; \`packages.sh build $suite\` makes them"
    attempt "$suite: a fresh root" copy_root "$suite" check || return
    mkdir "$home/$suite.check/idem" && copy_tree "$home/$suite.check/idem" || return
    attempt "$suite: apt install ./postgresql-$major-idem_….deb and the others" \
        install_packages "$suite" "postgresql-$major-idem" idem-tools idem-portable idem-doc || return
    attempt "$suite: there is no compiler" has_no_compiler "$suite"
    attempt "$suite: python3, for the SQL of README.md" apt_in "$suite.check" install python3 || return
    attempt "$suite: a payment that is made once; the SQL of README.md; the worker" package_test "$suite" extension
    attempt "$suite: the command" package_test "$suite" command
    attempt "$suite: the portable edition" package_test "$suite" portable
    attempt "$suite: a newer package is made" make_next_package "$suite" "$major" &&
        attempt "$suite: an upgrade with a running server" package_test "$suite" upgrade
    attempt "$suite: libidem-client-dev, and a compiler" install_packages "$suite" libidem-client1 libidem-client-dev &&
        attempt "$suite: what a consumer needs" apt_in "$suite.check" install g++ cmake pkgconf make &&
        attempt "$suite: a consumer" package_test "$suite" consumer
    attempt "$suite: purge leaves nothing" is_purged "$suite"
}

check() {
    use_packages "$1" || failed=1
    rm -rf --one-file-system "$home/$1.check"
}

# --- Reproducing ---------------------------------------------------------------------------------------------------------

# The tests of the build leave nothing in the packages.
build_elsewhere() { build_in "$1" /elsewhere/another TZ=Pacific/Kiritimati LC_ALL=C DEB_BUILD_OPTIONS="parallel=$(nproc) nocheck"; }

is_same() { cmp "$out/$1/$2" "$home/$1.build/elsewhere/another/$2"; }

reproduce() {
    local package
    attempt "$1: built again, in another directory and time zone" build_elsewhere "$1" || return
    for package in "$out/$1"/*.deb "$out/$1"/*.tar.*; do
        package=$(basename "$package")
        attempt "$1: the same bytes: $package" is_same "$1" "$package"
    done
}

# -------------------------------------------------------------------------------------------------------------------------

action=${1:-}
case $action in
    --clean) ;;
    build) read_suites suites "${2:-$(. /etc/os-release && echo "${VERSION_CODENAME:-}")}" ;;
    check | reproduce) read_suites suites "${2:-}" ;;
    *) usage ;;
esac
is_root || die "needs root: it makes and enters root directories (debootstrap, unshare, chroot)"
if [ "$action" = --clean ]; then
    rm -rf --one-file-system "$home"
    exit
fi
command -v debootstrap >/dev/null || scripts/deps.sh debootstrap
command -v dpkg-parsechangelog >/dev/null || scripts/deps.sh dpkg-dev

for suite in "${suites[@]}"; do
    mkdir -p "$out/$suite"
    if [ -n "${SUDO_UID:-}" ]; then chown "$SUDO_UID" build build/packages "$out/$suite"; fi # what comes next in build needs no root
    log=$out/$suite/$action.log
    : >"$log"
    case $action in
        build) attempt "$suite: packages of $(version)" build "$suite" && attempt "$suite: lintian" lint "$suite" || true ;;
        *) "$action" "$suite" || true ;;
    esac
done
finish
