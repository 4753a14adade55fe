# The calls of the portable edition that are counted, beside what they are compared with. Sourced by instructions.sh.
# shellcheck shell=bash

portable=$contenders/portable

count raw fresh bench/keys/fresh.sql "$portable/raw_insert.sql"
count raw duplicate bench/keys/duplicate.sql "$portable/raw_insert.sql"
count raw 'fresh in idem_keys' bench/keys/fresh.sql "$portable/raw_keys.sql"
count raw 'duplicate in idem_keys' bench/keys/duplicate.sql "$portable/raw_keys.sql"
count idem_claim fresh bench/keys/fresh.sql "$contenders/claim/idem_claim.sql"
count idem_claim duplicate bench/keys/duplicate.sql "$contenders/claim/idem_claim.sql"
count idem_claim 'fresh with a ttl' bench/keys/fresh.sql "$portable/claim_ttl.sql"
count idem_try_claim fresh bench/keys/fresh.sql "$contenders/try/idem_try_claim.sql"
count idem_try_claim duplicate bench/keys/duplicate.sql "$contenders/try/idem_try_claim.sql"
count idem_begin fresh bench/keys/fresh.sql "$contenders/replay/idem_begin.sql"
count idem_begin duplicate bench/keys/duplicate.sql "$contenders/replay/idem_begin.sql"
count 'idem_begin and idem_complete' fresh bench/keys/fresh.sql "$portable/begin_complete.sql"
count idem_execute fresh bench/keys/fresh.sql "$portable/execute.sql"
count idem_execute replay bench/keys/duplicate.sql "$portable/execute.sql"
count 'five statements' fresh bench/keys/fresh.sql bench/keys/order.sql "$contenders/request/hand_written.sql"
count 'idem_http_begin and idem_http_complete' fresh bench/keys/fresh.sql "$portable/http.sql"
