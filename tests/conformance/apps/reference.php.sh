#!/usr/bin/env bash
# Starts reference.php in PHP's own server, with as many processes as requests come at once.
set -euo pipefail
psql=$("${PG_CONFIG:-pg_config}" --bindir)/psql
"$psql" --no-psqlrc --quiet --output=/dev/null --set=ON_ERROR_STOP=1 --command="SET client_min_messages = warning" \
    --command="CREATE TABLE IF NOT EXISTS effects (id int GENERATED ALWAYS AS IDENTITY, key text)" \
    --command="CREATE TABLE IF NOT EXISTS runs (key text)" --command="SELECT idem.idem_http_scope_set('conformance', profile => '$PROFILE')"
export SERVER=$$ PHP_CLI_SERVER_WORKERS=24
(until (: </dev/tcp/127.0.0.1/"$PORT") 2>/dev/null; do sleep 0.05; done && echo "$PORT") &
exec php -d display_errors=0 -S "127.0.0.1:$PORT" "$(dirname "$0")/reference.php" >/dev/null
