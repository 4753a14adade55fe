#!/usr/bin/env bash
# The complete program as the README prints it: runs its commands, and compares the answers to its requests. Prints TAP.
# The caller drops the database NAME and the role NAME afterwards.
#
#   example.sh NAME DATABASE_URL CLASSPATH LOG    NAME and DATABASE_URL replace the README's; CLASSPATH has what the URL needs
set -euo pipefail
cd "$(dirname "$0")/../../.."
source scripts/lib.sh

readme=integrations/java/README.md
name=$1 database_url=$2 classpath=$3 log=$4
port=$(free_port)
server=
failed=0
count=0

# shellcheck disable=SC2317 # called by at_exit
finish() { [ -z "$server" ] || kill "$server" || true; }
at_exit finish

# block LANGUAGE: the first one of the README.
block() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/{//!p;/^\`\`\`\$/q}" "$readme"; }

# is FOUND WANTED TEST
is() {
    count=$((count + 1))
    [ "$1" != "$2" ] || { echo "ok $count - $3" && return; }
    failed=1
    echo "not ok $count - $3"
    printf '%s\n' found: "$1" wanted: "$2" | sed 's/^/# /'
}

# The last command becomes the server. The portable edition has no extension, and no idem_grant.
commands() {
    local script readme_url="'jdbc:postgresql://localhost/$name?user=$name&password=secret'"
    script=$(block bash | sed -e "s/\\bshop\\b/$name/g" -e "/^jars=/a jars=\$jars:$classpath" -e 's/^java /exec java /')
    [ -z "${IDEM_PORTABLE:-}" ] || script=$(sed -e '/^CREATE SCHEMA/d' -e '/^CREATE EXTENSION/d' -e '/idem_grant/d' \
        -e "/^createdb /a source scripts/lib.sh; install_idem $name" <<<"$script")
    echo "${script/"$readme_url"/"'$database_url'"}"
}

start() {
    : >"$log"
    PATH="$("$PG_CONFIG" --bindir):$PATH" PSQLRC=/dev/null JDK_JAVA_OPTIONS="-Dport=$port ${JDK_JAVA_OPTIONS:-}" \
        bash -euc "$(commands)" >>"$log" 2>&1 &
    server=$!
    grep --quiet --max-count=1 'Started ServerConnector' < <(tail --pid="$server" --follow --lines=+1 "$log")
}

# The README's requests, each with its answer.
transcript() {
    local line
    while IFS= read -r line; do
        [[ $line == '$ curl '* ]] || continue
        printf '%s\n' "$line"
        line=${line/localhost:8080/localhost:$port}
        eval "curl --silent ${line#'$ curl '}" | tr -d '\r' | grep -Ev '^(Date|Server): '
    done < <(block console)
}

# status ITEM KEY HEADER: the last line is the status.
order() { curl --silent --write-out '\n%{http_code}' --data "$1" --header "Idempotency-Key: $2" --header "$3" "localhost:$port/orders"; }

start || {
    sed 's/^/# /' "$log"
    echo "Bail out! the program did not start"
    exit 1
}
is "$(transcript)" "$(block console)" "the answers are those of the README"
is "$(order item=pears k 'X-API-Key: of nobody' | tail -n 1)" 401 "a client that is not authenticated is 401"
is "$(order no=item k 'X-API-Key: key-of-alice')" $'\n500' "an exception is an empty 500: its text is not shown"
is "$("$("$PG_CONFIG" --bindir)/psql" --no-psqlrc --dbname="$name" --tuples-only --no-align --command='SELECT item FROM orders')" apples "one order"
echo "1..$count"
exit $failed
