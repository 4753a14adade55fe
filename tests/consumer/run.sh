#!/usr/bin/env bash
# run.sh BUILD: uses the client as others would. Installs what was built in BUILD into a directory of its own and there,
# away from the tree, builds and runs a consumer, the examples and the code of docs/client.md, by find_package and by
# pkg-config. Prints TAP.
#
# libpq's environment names the server; the database is one of its own. CXX and PKG_CONFIG_PATH are to name the compiler and
# the libpqxx of BUILD where they are not the system's.
set -uo pipefail
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.." || exit
tree=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/installed
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
: "${CXX:=c++}"
count=0 failed=0

# check NAME COMMAND…: one test; what a failed one printed follows as a comment.
check() {
    local name=$1 output
    shift
    count=$((count + 1))
    if output=$("$@" 2>&1); then
        echo "ok $count - $name"
    else
        failed=$((failed + 1))
        echo "not ok $count - $name"
        sed 's/^/# /' <<<"$output" | tail -n 60
        return 1
    fi
}

install_package() {
    cmake --install "$build" --component client --prefix "$prefix" >/dev/null &&
        mkdir "$work/consumer" "$work/examples" "$work/document" &&
        cp tests/consumer/{CMakeLists.txt,main.cpp} "$work/consumer" &&
        cp client/examples/*.cpp "$work/examples" &&
        cp tests/consumer/document.hpp "$work/document" &&
        awk -v OUT="$work/document" -f tests/consumer/document.awk docs/client.md README.md
}

umbrella_is_complete() {
    diff <(grep -o '<idem/.*>' "$prefix/include/idem/idem.hpp" | sort) \
        <(cd "$prefix/include" && printf '<%s>\n' idem/*.hpp | grep -v -e /idem.hpp -e /nlohmann.hpp | sort)
}

find_package() {
    cmake -S "$1" -B "$1/build" -DCMAKE_PREFIX_PATH="$prefix" "${@:2}" &&
        cmake --build "$1/build" --parallel "$(nproc)"
}

pkg_config() {
    # shellcheck disable=SC2046 # words are what it is for
    "$CXX" -std="c++$1" -Wall -Wextra -Werror "$work/consumer/main.cpp" -o "$work/consumer/by-pkg-config-$1" \
        $(pkg-config --cflags --libs idem-client) -Wl,-rpath,"$prefix/lib"
}

# What the compiler says of a callable that does not fit has a sentence with the one that does.
misuse_is_explained() {
    # shellcheck disable=SC2046
    ! "$CXX" -std=c++20 -fsyntax-only tests/consumer/misuse.cpp $(pkg-config --cflags idem-client) 2>"$work/misuse" &&
        diff tests/consumer/misuse.txt <(sed -n 's/.*error: static assertion failed: //p' "$work/misuse" | sort)
}

# A header stops an older standard before anything else is said.
older_standard_is_refused() {
    # shellcheck disable=SC2046
    ! "$CXX" -std=c++14 -fsyntax-only -x c++ $(pkg-config --cflags idem-client) "$prefix/include/idem/$1" 2>"$work/older" &&
        grep --quiet 'the client of idem needs C++17' "$work/older" && [ "$(grep --count 'error:' "$work/older")" -le 2 ]
}

all_refuse_an_older_standard() {
    local header
    for header in "$prefix"/include/idem/*.hpp; do older_standard_is_refused "${header##*/}" || { echo "$header"; return 1; }; done
}

# The package can be moved, and does without the shared library.
static_elsewhere() {
    cp -R "$prefix" "$work/moved" && rm "$work/moved"/lib/*.so* || return
    local PKG_CONFIG_PATH=$work/moved/lib/pkgconfig:$PKG_CONFIG_PATH
    # shellcheck disable=SC2046
    "$CXX" -std=c++20 "$work/consumer/main.cpp" -o "$work/consumer/static-elsewhere" $(pkg-config --cflags --libs idem-client)
}

# The document's own words: its CMakeLists.txt, its command, its program.
document_program() {
    find_package "$work/document" && "$work/document/build/pay" &&
        (cd "$work/document" && CXX=$CXX LD_LIBRARY_PATH=$prefix/lib bash -e build.sh && LD_LIBRARY_PATH=$prefix/lib ./pay)
}

document_snippets() {
    psql --no-psqlrc --quiet --output=/dev/null --set=ON_ERROR_STOP=1 --file="$work/document/setup.sql" &&
        "$work/consumer/build/document"
}

# What docs/leases.md shows of an example is what it prints.
shown_output() {
    diff <(sed -n '/^<!-- output of payment_in_steps -->$/,/^```$/{/^<!--/d;/^```/d;p}' docs/leases.md) \
        <("$work/consumer/build/payment_in_steps")
}

database=consumer_$$
psql --no-psqlrc --quiet --command="CREATE DATABASE $database" || exit
maintenance=${PGDATABASE:-postgres}
export PGDATABASE=$database
trap 'PGDATABASE=$maintenance psql --no-psqlrc --quiet --command="DROP DATABASE $database"; rm -rf "$work"' EXIT
# The portable edition may be there from the template.
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 <<'SQL' || exit
SET client_min_messages = warning;
CREATE SCHEMA IF NOT EXISTS idem;
SELECT 'CREATE EXTENSION idem SCHEMA idem' WHERE to_regproc('idem.idem_version') IS NULL \gexec
SQL

check 'installs' install_package || exit
check 'idem.hpp includes every header' umbrella_is_complete
check 'a callable that does not fit is explained' misuse_is_explained
check 'every header refuses C++14' all_refuse_an_older_standard
# Who asks for this minor version gets it.
version=$(sed -n "s/^default_version *= *'\([0-9]*\.[0-9]*\).*/\1/p" extension/idem.control)
check 'builds by find_package' find_package "$work/consumer" "-DIDEM_VERSION=$version" \
    "-DPROGRAMS=$work/document/document.cpp;$(printf '%s;' "$work"/examples/*.cpp)"
for program in consumer consumer-20 consumer-static; do check "runs: $program" "$work/consumer/build/$program"; done
for standard in $(printf '%s\n' "$(pkg-config --variable=cxx_standard idem-client)" 20 | uniq); do
    check "builds by pkg-config, C++$standard" pkg_config "$standard"
    check "runs: by pkg-config, C++$standard" "$work/consumer/by-pkg-config-$standard"
done
check 'builds by pkg-config, static, after a move' static_elsewhere
check 'runs: static, after a move' "$work/consumer/static-elsewhere"
for example in "$tree"/client/examples/*.cpp; do
    name=$(basename "$example" .cpp)
    [ "$name" != payment_in_steps ] || continue # below
    check "example: $name" "$work/consumer/build/$name"
done
check 'the output in docs/leases.md' shown_output
check 'the program of docs/client.md' document_program
check 'the code of docs/client.md and README.md' document_snippets
echo "1..$count"
exit $((failed > 0))
