#!/usr/bin/env bash
# Of the release checklist (CONTRIBUTING.md), what can be run: TAP, a line for each point. What takes hours is run by hand: this looks at
# the tree, the archives and the packages.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
source scripts/tap.sh

version=$(sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" extension/idem.control)
is_clean() { local changes; changes=$(git status --porcelain) && echo "$changes" && [ -z "$changes" ]; }

# "## 1.0.0 (2026-12-01)", the first entry.
has_dated_entry() { grep --max-count=1 '^## ' CHANGELOG.md | grep --extended-regexp "^## ${version//./\\.} \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$" || { grep --max-count=1 '^## ' CHANGELOG.md; return 1; }; }

has_package_entry() { head -n 1 debian/changelog && [[ $(head -n 1 debian/changelog) == "idem ($version-"*") unstable;"* ]]; }

is_stable_on_pgxn() { grep --fixed-strings '"release_status": "stable"' META.json || { grep release_status META.json; return 1; }; }

is_tagged() { git describe --exact-match --match "v$version" || { echo "git tag --annotate v$version"; return 1; }; }

# A version that was released has a way to this one.
has_upgrades() {
    local tag
    for tag in $(git tag --list 'v[0-9]*' --merged HEAD); do
        [ "$tag" = "v$version" ] || [ -e "sql/idem--${tag#v}--$version.sql" ] || { echo "sql/idem--${tag#v}--$version.sql is missing"; return 1; }
    done
}

# Of this commit, which they tell by its tag.
has_packages() {
    local suite built
    for suite in bookworm trixie forky; do
        compgen -G "build/packages/$suite/postgresql-*-idem_$version-*.deb" || { echo "make deb SUITE=$suite"; return 1; }
        built=$(tar --extract --to-stdout --wildcards --file "build/packages/$suite/idem_$version.orig.tar.gz" '*/scripts/source-id') || return
        echo "$suite: of $built"
        [ "$built" = "$(scripts/source-id.sh)" ] || return
    done
}

# Addresses that somebody reads.
has_contacts() {
    ! grep --line-number --extended-regexp 'filled in by the release|is not released yet|example\.org' \
        SECURITY.md META.json debian/control.in debian/control debian/copyright <(head -n 10 debian/changelog)
}

tap 'the tree is clean' is_clean
tap "CHANGELOG.md begins with $version and its date" has_dated_entry
tap "debian/changelog begins with $version" has_package_entry
tap 'META.json says that the release is stable' is_stable_on_pgxn
tap 'every released version has an upgrade to this one' has_upgrades
tap 'SECURITY.md and the packages have addresses that somebody reads' has_contacts
tap 'the tree keeps its conventions' bats --tap tests/tree
tap 'make lint' scripts/lint.sh
tap 'make dist, and the archives build alone' scripts/dist.sh --check
tap 'there are packages of this commit for each Debian' has_packages
tap 'make check-deb' scripts/packages.sh check
tap 'make check-images' scripts/images.sh check
tap "the commit has the tag v$version" is_tagged
finish
