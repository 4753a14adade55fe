\echo Use "CREATE EXTENSION idem" to load this file. \quit
-- What the functions answer with.

CREATE TYPE idem_outcome AS ENUM ('acquired', 'taken_over', 'in_flight', 'completed', 'mismatch', 'in_doubt');
COMMENT ON TYPE idem_outcome IS
'What became of a claim. acquired, taken_over: the caller does the work; in_flight: somebody else is doing it; completed: it is done and committed; mismatch: the key belongs to a different request; in_doubt: its holder vanished and an operator has to decide.';

CREATE TYPE idem_ticket AS (
    outcome          idem_outcome,
    fence            bigint,
    attempt          integer,
    lease_until      timestamptz,
    status_code      integer,
    response         jsonb,
    response_omitted boolean,
    recovery_point   text,
    retry_after      interval
);
COMMENT ON TYPE idem_ticket IS 'The answer of idem_begin and idem_execute. Call them as SELECT * FROM idem_begin(…).';
COMMENT ON COLUMN idem_ticket.outcome IS 'What the caller is to do.';
COMMENT ON COLUMN idem_ticket.fence IS 'Fencing token of the holder, leased mode only: give it to idem_complete and the others. Greater than every earlier one in this database.';
COMMENT ON COLUMN idem_ticket.attempt IS 'Which attempt at the work this is, from 1.';
COMMENT ON COLUMN idem_ticket.lease_until IS 'When the holder''s lease ends; leased mode only.';
COMMENT ON COLUMN idem_ticket.status_code IS 'Status code stored with the response; outcome completed.';
COMMENT ON COLUMN idem_ticket.response IS 'The stored response; outcome completed (idem_execute: also acquired).';
COMMENT ON COLUMN idem_ticket.response_omitted IS 'True when the response was too large to be stored: the work is done, its response is not here.';
COMMENT ON COLUMN idem_ticket.recovery_point IS 'Where the last attempt said it had come to (idem_checkpoint).';
COMMENT ON COLUMN idem_ticket.retry_after IS 'What is left of the holder''s lease; outcome in_flight. NULL when the holder''s transaction has not ended: then nobody can tell.';

CREATE TYPE idem_key_info AS (
    state            text,
    status_code      integer,
    response         jsonb,
    response_omitted boolean,
    attempt          integer,
    recovery_point   text,
    created_at       timestamptz,
    expires_at       timestamptz,
    lease_until      timestamptz,
    is_owner         boolean
);
COMMENT ON TYPE idem_key_info IS 'A key as idem_lookup shows it. Neither the fence nor the owner: those are the holder''s credentials.';
COMMENT ON COLUMN idem_key_info.state IS 'in_progress, completed, released or in_doubt.';
COMMENT ON COLUMN idem_key_info.status_code IS 'Status code stored with the response.';
COMMENT ON COLUMN idem_key_info.response IS 'The stored response.';
COMMENT ON COLUMN idem_key_info.response_omitted IS 'True when the response was too large to be stored.';
COMMENT ON COLUMN idem_key_info.attempt IS 'Which attempt at the work this is, from 1.';
COMMENT ON COLUMN idem_key_info.recovery_point IS 'Where the attempt said it had come to.';
COMMENT ON COLUMN idem_key_info.created_at IS 'When this attempt was claimed.';
COMMENT ON COLUMN idem_key_info.expires_at IS 'When the retention ends; infinity: never.';
COMMENT ON COLUMN idem_key_info.lease_until IS 'When the holder''s lease ends, or ended; leased mode only.';
COMMENT ON COLUMN idem_key_info.is_owner IS 'Whether the owner given to idem_lookup is the one that claimed the key.';

CREATE TYPE idem_token_outcome AS ENUM ('accepted', 'duplicate', 'in_flight', 'expired', 'invalid');
COMMENT ON TYPE idem_token_outcome IS
'What became of a token''s redemption. accepted: do the work; duplicate: it was redeemed, and that has committed; in_flight: another transaction is redeeming it; expired: too late; invalid: not a token of this database for this subject and scope, or revoked.';
-- Where keys, tokens, locks, scopes, counters and state machines live. All access goes through the functions.

-- The columns that every row has come first: that keeps rows small and reading them cheap.
CREATE TABLE idem_keys (
    created_at       timestamptz NOT NULL,
    expires_at       timestamptz NOT NULL,
    attempt          integer     NOT NULL,
    state            "char"      NOT NULL CHECK (state IN ('p', 'c', 'r', 'd')),
    scope            text COLLATE "C" NOT NULL,
    key              text COLLATE "C" NOT NULL,
    lease_until      timestamptz,
    fence            bigint,
    status_code      integer,
    response_omitted boolean,
    owner            text COLLATE "C",
    fingerprint      bytea,
    recovery_point   text,
    response         jsonb,
    PRIMARY KEY (scope, key)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);

COMMENT ON TABLE idem_keys IS
'Idempotency keys: one row for each key in its scope. No column that changes is indexed, and pages keep some room, so that completions are heap-only updates. Read it freely; change it only by the functions. User triggers and row-level security on it have no effect on them.';
COMMENT ON COLUMN idem_keys.created_at IS 'When the current attempt was claimed (database time).';
COMMENT ON COLUMN idem_keys.expires_at IS 'When the retention ends; infinity: never.';
COMMENT ON COLUMN idem_keys.attempt IS 'Which attempt at the work this is, from 1.';
COMMENT ON COLUMN idem_keys.state IS 'p: in progress (leased), c: completed, r: released, d: in doubt.';
COMMENT ON COLUMN idem_keys.scope IS 'The space in which the key is unique; at most 255 bytes.';
COMMENT ON COLUMN idem_keys.key IS 'The key; 1 to 1024 bytes.';
COMMENT ON COLUMN idem_keys.lease_until IS 'When the holder''s lease ends; NULL in transactional mode.';
COMMENT ON COLUMN idem_keys.fence IS 'Fencing token of the last holder; NULL in transactional mode.';
COMMENT ON COLUMN idem_keys.status_code IS 'Status code stored with the response.';
COMMENT ON COLUMN idem_keys.response_omitted IS 'True when the response was too large to be stored, otherwise NULL.';
COMMENT ON COLUMN idem_keys.owner IS 'The holder''s nonce, if it gave one.';
COMMENT ON COLUMN idem_keys.fingerprint IS 'Hash of the request that claimed the key, if it gave one.';
COMMENT ON COLUMN idem_keys.recovery_point IS 'Where the attempt said it had come to.';
COMMENT ON COLUMN idem_keys.response IS 'The stored response.';

-- Tokens and locks are kept as keys are, each in a table of its own, so that no name of one is in the way of another's.
CREATE TABLE idem_tokens (
    LIKE idem_keys INCLUDING COMMENTS INCLUDING INDEXES, CHECK (state IN ('p', 'c', 'r', 'd'))
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);
COMMENT ON TABLE idem_tokens IS
'Redeemed tokens: a space of names apart from the keys, with the same columns. Change it only by the functions.';
COMMENT ON COLUMN idem_tokens.scope IS 'The scope that the token was issued for.';
COMMENT ON COLUMN idem_tokens.key IS 'What tells the token from every other.';

-- A lock's row changes hands again and again: leave half of each page for that.
CREATE TABLE idem_locks (
    LIKE idem_keys INCLUDING COMMENTS INCLUDING INDEXES, CHECK (state IN ('p', 'c', 'r', 'd'))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE idem_locks IS
'Lease locks: one row for each name in its scope, kept for a day beyond its last lease; a space of names apart from the keys, with the same columns. Change it only by the functions.';
COMMENT ON COLUMN idem_locks.created_at IS 'When the lock was last taken (database time).';
COMMENT ON COLUMN idem_locks.expires_at IS 'From when on the row of a lock that nobody holds may be deleted.';
COMMENT ON COLUMN idem_locks.attempt IS 'How often the lock was taken, as long as the row has been there.';
COMMENT ON COLUMN idem_locks.state IS 'p: taken, r: free.';
COMMENT ON COLUMN idem_locks.scope IS 'The space in which the name is unique; at most 255 bytes.';
COMMENT ON COLUMN idem_locks.key IS 'The lock''s name; 1 to 1024 bytes.';
COMMENT ON COLUMN idem_locks.lease_until IS 'When the holder''s lease ends, or ended; NULL when the lock is free.';
COMMENT ON COLUMN idem_locks.fence IS 'Fencing token of the last holder.';

CREATE TABLE idem_scopes (
    scope             text COLLATE "C" PRIMARY KEY,
    ttl               interval,
    keep_forever      boolean,
    lease             interval,
    on_lease_expiry   text CHECK (on_lease_expiry IN ('takeover', 'manual')),
    max_response_size integer CHECK (max_response_size >= 0),
    owner             regrole
);
COMMENT ON TABLE idem_scopes IS 'Policies of the scopes that have one (idem_scope_set). NULL: the setting applies.';
COMMENT ON COLUMN idem_scopes.scope IS 'The scope.';
COMMENT ON COLUMN idem_scopes.ttl IS 'How long its keys stay unique; NULL: idem.default_ttl.';
COMMENT ON COLUMN idem_scopes.keep_forever IS 'True: its keys never expire, whatever ttl a call gives.';
COMMENT ON COLUMN idem_scopes.lease IS 'How long a lease lasts when the call does not say; NULL: idem.default_lease.';
COMMENT ON COLUMN idem_scopes.on_lease_expiry IS 'takeover: the next caller takes a lapsed key over; manual: it is in doubt until an operator decides.';
COMMENT ON COLUMN idem_scopes.max_response_size IS 'The largest response stored, in bytes; NULL: idem.max_response_size.';
COMMENT ON COLUMN idem_scopes.owner IS 'Only roles with this role''s privileges may use the scope; NULL or -: everybody.';

CREATE TABLE idem_counters (
    expires_at timestamptz NOT NULL,
    hits       bigint      NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, key)
) WITH (fillfactor = 70);
COMMENT ON TABLE idem_counters IS 'What idem_hit counts: a space of names apart from the keys.';
COMMENT ON COLUMN idem_counters.expires_at IS 'When the counter''s window ends and it starts again.';
COMMENT ON COLUMN idem_counters.hits IS 'How often the key was seen in this window.';
COMMENT ON COLUMN idem_counters.scope IS 'The scope.';
COMMENT ON COLUMN idem_counters.key IS 'The key.';

CREATE TABLE idem_machines (
    name       text COLLATE "C" PRIMARY KEY,
    definition jsonb NOT NULL
);
COMMENT ON TABLE idem_machines IS 'State machines (idem_machine_define). Read it freely; change it only by the functions, which check the rows of the attached tables.';
COMMENT ON COLUMN idem_machines.name IS 'The machine''s name; 1 to 255 bytes.';
COMMENT ON COLUMN idem_machines.definition IS 'Its definition, as it was given.';

CREATE TABLE idem_transition_log (
    target       text NOT NULL,
    key          jsonb NOT NULL,
    state_column text NOT NULL,
    from_state   text,
    to_state     text NOT NULL,
    at           timestamptz NOT NULL,
    by           text NOT NULL
);
-- A B-tree would refuse keys over 2,704 bytes, and with them the row's transition.
CREATE INDEX idem_transition_log_key ON idem_transition_log USING hash (key);
COMMENT ON TABLE idem_transition_log IS
'Moves of the rows of tables that were attached with log => true, in the transaction that made them. Nothing deletes from it. User triggers and row-level security on it have no effect on the guard that writes it.';
COMMENT ON COLUMN idem_transition_log.target IS 'The table that the machine is attached to: schema and name, quoted where needed.';
COMMENT ON COLUMN idem_transition_log.key IS 'Which row: {"column": value, …} of its primary key, or of its first usable unique index.';
COMMENT ON COLUMN idem_transition_log.state_column IS 'The state column.';
COMMENT ON COLUMN idem_transition_log.from_state IS 'The state before; NULL: the row was inserted.';
COMMENT ON COLUMN idem_transition_log.to_state IS 'The state after.';
COMMENT ON COLUMN idem_transition_log.at IS 'When the guard saw the move (database time, not the transaction''s start).';
COMMENT ON COLUMN idem_transition_log.by IS 'The current user.';
COMMENT ON INDEX idem_transition_log_key IS 'Finds a row''s history: WHERE key = ''{"id": 1}''.';

-- No key, so no index: rows are few, and are written past it. No statistics: they would have secrets in them.
CREATE TABLE idem_token_secrets (
    key_id     integer     NOT NULL,
    database   oid         NOT NULL,
    created_at timestamptz NOT NULL,
    secret     bytea       NOT NULL
);
ALTER TABLE idem_token_secrets ALTER key_id SET STATISTICS 0, ALTER database SET STATISTICS 0,
    ALTER created_at SET STATISTICS 0, ALTER secret SET STATISTICS 0, ALTER secret SET STORAGE PLAIN;
COMMENT ON TABLE idem_token_secrets IS
'What tokens are signed with. Not dumped: after a restore from a dump, outstanding tokens are invalid. Change it only by idem_token_rotate_secret; whoever can read it can make tokens.';
COMMENT ON COLUMN idem_token_secrets.key_id IS 'What tokens name their secret by; the greatest one signs.';
COMMENT ON COLUMN idem_token_secrets.database IS 'The database that made it; a copy of that database makes its own.';
COMMENT ON COLUMN idem_token_secrets.created_at IS 'When it was made. Its predecessor verifies for eight days from then on.';
COMMENT ON COLUMN idem_token_secrets.secret IS 'The key of HMAC-SHA256.';

CREATE SEQUENCE idem_fence_high_water;
COMMENT ON SEQUENCE idem_fence_high_water IS
'How far fencing tokens have come, and been reserved. Only the page is a sequence''s: nextval is never called on it, as a sequence issues values twice after a crash.';

CREATE SEQUENCE idem_id_high_water;
COMMENT ON SEQUENCE idem_id_high_water IS
'How far the numbers of idem_next_id have come, and been reserved: kept as idem_fence_high_water is. nextval is never called on it.';

-- Keys, tokens, locks, policies, machines, histories and the high-water marks are the user's data: dump them. Secrets are not: never dump them.
SELECT pg_catalog.pg_extension_config_dump('idem_keys', '');
SELECT pg_catalog.pg_extension_config_dump('idem_tokens', '');
SELECT pg_catalog.pg_extension_config_dump('idem_locks', '');
SELECT pg_catalog.pg_extension_config_dump('idem_scopes', '');
SELECT pg_catalog.pg_extension_config_dump('idem_counters', '');
SELECT pg_catalog.pg_extension_config_dump('idem_machines', '');
SELECT pg_catalog.pg_extension_config_dump('idem_transition_log', '');
SELECT pg_catalog.pg_extension_config_dump('idem_fence_high_water', '');
SELECT pg_catalog.pg_extension_config_dump('idem_id_high_water', '');

REVOKE ALL ON idem_keys, idem_tokens, idem_locks, idem_scopes, idem_counters, idem_machines, idem_transition_log, idem_token_secrets FROM PUBLIC;
REVOKE ALL ON SEQUENCE idem_fence_high_water, idem_id_high_water FROM PUBLIC;

-- Sessions keep what scopes and machines say in memory.
CREATE FUNCTION idem_definitions_changed() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_definitions_changed() IS 'Internal: makes every session read the table again.';

CREATE TRIGGER idem_definitions_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON idem_scopes
    FOR EACH STATEMENT EXECUTE FUNCTION idem_definitions_changed();
ALTER TABLE idem_scopes ENABLE ALWAYS TRIGGER idem_definitions_changed;
COMMENT ON TRIGGER idem_definitions_changed ON idem_scopes IS 'Makes every session read the table again.';

CREATE TRIGGER idem_definitions_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON idem_machines
    FOR EACH STATEMENT EXECUTE FUNCTION idem_definitions_changed();
ALTER TABLE idem_machines ENABLE ALWAYS TRIGGER idem_definitions_changed;
COMMENT ON TRIGGER idem_definitions_changed ON idem_machines IS 'Makes every session read the table again.';
-- Scopes: retention, lease and response policy, and who may use them.

CREATE FUNCTION idem_scope_set(scope text, ttl interval DEFAULT NULL, keep_forever boolean DEFAULT NULL, lease interval DEFAULT NULL,
                               on_lease_expiry text DEFAULT NULL, max_response_size integer DEFAULT NULL, owner regrole DEFAULT NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_scope_set(text, interval, boolean, interval, text, integer, regrole) IS
'Registers a scope, or changes its policy; NULL leaves as is, owner ''-'' takes the owner away. Holds for every session at once. Operators.
Errors: 22004 scope is null; 22023 scope over 255 bytes, ttl or lease not positive, unknown on_lease_expiry (takeover, manual), negative max_response_size; 42501 the scope has an owner whose privileges the caller lacks.';

CREATE FUNCTION idem_scope_drop(scope text) RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_scope_drop(text) IS 'Drops a scope''s policy and owner; its keys stay. True if there was one. Operators.';
-- Keys and fingerprints from values: pure functions.

CREATE FUNCTION idem_key(VARIADIC parts "any") RETURNS text LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_key("any") IS
'One key from several values, joined so that different lists give different keys: (''a'', ''bc'') is not (''ab'', ''c''). Text, integers, numeric, uuid, boolean, date; parts are compared by their text, independent of settings.
Errors: 22004 a part is null; 42804 a part of another type.';

CREATE FUNCTION idem_fingerprint(request jsonb) RETURNS bytea LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_fingerprint(jsonb) IS
'Fingerprint of a request: a version byte (1) and SHA-256 of its canonical form. Order of object members, white space and 1.0 for 1 make no difference; order of array elements does. Error: 22004 when null.';

CREATE FUNCTION idem_fingerprint_text(request text) RETURNS bytea LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_fingerprint_text(text) IS 'Fingerprint of a text: a version byte (1) and SHA-256 of its UTF-8 form. Error: 22004 when null.';

CREATE FUNCTION idem_fingerprint_bytes(request bytea) RETURNS bytea LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_fingerprint_bytes(bytea) IS 'Fingerprint of bytes: a version byte (1) and their SHA-256. Error: 22004 when null.';
-- Idempotency keys.

CREATE FUNCTION idem_claim(key text, ttl interval DEFAULT NULL, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_claim(text, interval, text) IS
'Claims a key for this transaction. True: it is yours, do the work; it counts as done when you commit. False: the work of this key has committed. Waits for an uncommitted holder.
ttl: how long the key stays unique (default: the scope''s, else idem.default_ttl).
Errors: 22004 key or scope is null; 22023 key empty or over 1024 bytes, scope over 255 bytes, ttl not positive; 25006 fresh key in a read-only transaction; 40001 under REPEATABLE READ and SERIALIZABLE, when the answer rests on a row the snapshot cannot see; 42501 scope of another owner; ID005 the key is leased or in doubt; and those of any lock wait (40P01, 55P03, 57014).';

CREATE FUNCTION idem_try_claim(key text, ttl interval DEFAULT NULL, scope text DEFAULT '')
RETURNS idem_outcome LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_try_claim(text, interval, text) IS
'Like idem_claim, but never waits: in_flight while another transaction holds the key uncommitted, or while its lease lives. Errors as idem_claim, without ID005 and those of waiting.';

CREATE FUNCTION idem_claim_many(keys text[], ttl interval DEFAULT NULL, scope text DEFAULT '')
RETURNS SETOF text LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_claim_many(text[], interval, text) IS
'Claims many keys for this transaction; returns those that are new, each once, in the order of the array. Waits for uncommitted holders; two calls cannot deadlock on each other. Errors as idem_claim.';

CREATE FUNCTION idem_begin(key text, fingerprint bytea DEFAULT NULL, ttl interval DEFAULT NULL, lease interval DEFAULT NULL,
                           owner text DEFAULT NULL, wait interval DEFAULT '0', scope text DEFAULT '')
RETURNS idem_ticket LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_begin(text, bytea, interval, interval, text, interval, text) IS
'Claims a key, and answers with what is known of it. Without lease: for this transaction, as idem_claim. With lease: commit, do the work outside, then idem_complete or idem_release with the fence.
fingerprint: of the request, to detect a key that is used for another one. owner: a nonce of the caller''s; the same owner gets its unfinished claim back. wait: how long to wait for a holder (0: not at all, NULL: without bound).
Call it as SELECT * FROM idem_begin(…); (idem_begin(…)).* would claim once per column. Errors as idem_claim, without ID005; 22023 also for a negative wait, a lease that is not positive, a fingerprint that is empty or over 255 bytes.';

CREATE FUNCTION idem_checkpoint(key text, recovery_point text, fence bigint, scope text DEFAULT '')
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_checkpoint(text, text, bigint, text) IS
'Notes how far the holder has come; the next attempt is told. Errors: ID001 stale fence; 22004 an argument is null.';

CREATE FUNCTION idem_renew(key text, fence bigint, lease interval DEFAULT NULL, scope text DEFAULT '')
RETURNS timestamptz LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_renew(text, bigint, interval, text) IS
'Makes the lease last from now on for as long as given (default: the scope''s lease, else idem.default_lease); returns its end. Errors: ID001 stale fence; 22004 fence is null; 22023 lease not positive.';

CREATE FUNCTION idem_complete(key text, response jsonb DEFAULT NULL, status_code integer DEFAULT NULL, fence bigint DEFAULT NULL,
                              scope text DEFAULT '')
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_complete(text, jsonb, integer, bigint, text) IS
'Completes a leased key with its response, or (without fence) attaches a response to this transaction''s own claim. Retention counts anew. The same again is a no-op. A response over the limit is not stored, with a warning.
Errors: ID001 stale fence, or without fence not this transaction''s claim.';

CREATE FUNCTION idem_release(key text, fence bigint, scope text DEFAULT '')
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_release(text, bigint, text) IS
'Gives a leased key back undone; the next claim gets it at once, as another attempt. Errors: ID001 stale fence; 22004 fence is null.';

CREATE FUNCTION idem_lookup(key text, owner text DEFAULT NULL, scope text DEFAULT '')
RETURNS SETOF idem_key_info LANGUAGE c VOLATILE PARALLEL SAFE ROWS 1 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_lookup(text, text, text) IS
'What became of a key, as this snapshot sees it (this transaction''s own claims included). No row: no live committed key. Writes nothing, never waits; works on a hot standby.';

CREATE FUNCTION idem_serialize(key text, scope text DEFAULT '')
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_serialize(text, text) IS
'Queues up: until this transaction ends, others that ask for the same key wait. Claims nothing. Keys are told apart by a 64-bit hash; a collision would only make two transactions wait for each other''s end.';

CREATE FUNCTION idem_forget(key text, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_forget(text, text) IS
'Deletes a key, so that its work can be done again; true if a live one was there. Waits for an uncommitted holder. Operators.';

CREATE FUNCTION idem_resolve(key text, resolution text, response jsonb DEFAULT NULL, status_code integer DEFAULT NULL,
                             scope text DEFAULT '')
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_resolve(text, text, jsonb, integer, text) IS
'Settles a key that is in doubt, or whose holder''s lease has run out: completed (with a response) or released. Draws a new fence, so that the old holder can no longer complete. Operators.
Errors: 22023 another resolution; 55000 no such key, or it is completed or released; ID005 its lease still lives.';
-- Claim, work and response in one call.

CREATE FUNCTION idem_execute(key text, statement text, args text[] DEFAULT '{}', fingerprint bytea DEFAULT NULL, ttl interval DEFAULT NULL,
                             scope text DEFAULT '')
RETURNS idem_ticket LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_execute(text, text, text[], bytea, interval, text) IS
'Claims the key, runs one statement with args as $1, $2 …, stores its rows as a jsonb array of objects, and answers as idem_begin does; a duplicate gets the stored rows, and the statement does not run. The statement runs with the caller''s privileges and search_path; parameter types are inferred from their use. An error in it frees the key. Never waits for another holder (in_flight).
Errors: as idem_begin, and those of the statement; 22023 number of args; 42601 not exactly one statement; 42701 two result columns of one name; 42P18, 42P08 a parameter whose type cannot be inferred, or not in one way.';
-- Counters.

CREATE FUNCTION idem_hit(key text, ttl interval DEFAULT NULL, scope text DEFAULT '')
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_hit(text, interval, text) IS
'How often this key was seen within its ttl, this time included: 1 is the first. The window starts at the first hit. Counters share no names with claimed keys. Transactional: a rollback takes the hit back, and concurrent hits of one key queue.';
-- Numbers: ids that grow, and UUIDs that nearly do.

CREATE FUNCTION idem_next_id() RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_next_id() IS
'A new id: 41 bits of milliseconds since 2024-01-01 UTC, 10 bits idem.node_id, 12 bits sequence. Strictly increasing in this database, whatever the clock, a crash or a rollback does; numbers that are not used are lost.
Errors: 25006 in a read-only transaction or on a standby; 2200H the 41 bits are used up (in 2093).';

CREATE FUNCTION idem_id_parts(id bigint, OUT at timestamptz, OUT node integer, OUT seq integer)
LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_id_parts(bigint) IS
'What idem_next_id put into an id: when it was made (to the millisecond; a little later, when more ids were made than a millisecond has), idem.node_id, and which of that millisecond''s it is. Errors: 22004 when null; 22023 when negative.';

CREATE FUNCTION idem_uuid_v7() RETURNS uuid LANGUAGE c VOLATILE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_uuid_v7() IS
'A UUID of version 7 (RFC 9562): time in front, 62 random bits. Those of one session grow. Writes nothing; works on a standby.';
-- One-time tokens: issued without writing anything, redeemed once.

CREATE FUNCTION idem_token_issue(subject text DEFAULT '', ttl interval DEFAULT '30 min', scope text DEFAULT '')
RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_token_issue(text, interval, text) IS
'A token that can be redeemed once, by the same subject (a user, a session, a form) in the same scope, within its ttl. 82 URL-safe characters. Writes nothing: works in read-only transactions and on a standby.
Errors: 22004 an argument is null; 22023 ttl not positive or over 7 days, scope over 255 bytes; 25006 there is no secret yet, and none can be written; 42501 scope of another owner.';

CREATE FUNCTION idem_token_redeem(token text, subject text DEFAULT '', scope text DEFAULT '')
RETURNS idem_token_outcome LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_token_redeem(text, text, text) IS
'Redeems a token for this transaction; never waits. accepted: do the work; if you roll back, the token is good again. duplicate: it was redeemed, and that has committed. in_flight: another transaction is redeeming it. expired, or invalid: whatever is not a live token of this database for this subject and scope.
Errors: 22004 an argument is null; 22023 scope over 255 bytes; 25006 a good token in a read-only transaction or on a standby; 40001 under REPEATABLE READ and SERIALIZABLE, when the answer rests on a row the snapshot cannot see; 42501 scope of another owner.';

CREATE FUNCTION idem_token_rotate_secret(revoke boolean DEFAULT false)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_token_rotate_secret(boolean) IS
'Signs with a new secret from its commit on. Old secrets verify until the last token that they could have signed has expired; with revoke, no more: all outstanding tokens are invalid. Operators. Error: 22004 revoke is null.';

-- Whoever deletes a secret by hand means it.
CREATE TRIGGER idem_token_secrets_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON idem_token_secrets
    FOR EACH STATEMENT EXECUTE FUNCTION idem_definitions_changed();
ALTER TABLE idem_token_secrets ENABLE ALWAYS TRIGGER idem_token_secrets_changed;
COMMENT ON TRIGGER idem_token_secrets_changed ON idem_token_secrets IS 'Makes every session read the table again.';

-- The first secret, so that a standby can issue tokens at once.
SELECT idem_token_rotate_secret();
-- Lease locks.

CREATE FUNCTION idem_lock(name text, ttl interval DEFAULT NULL, owner text DEFAULT NULL, wait interval DEFAULT '0',
                          scope text DEFAULT '')
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_lock(text, interval, text, interval, text) IS
'Takes a lock for as long as ttl says (default: the scope''s lease, else idem.default_lease), counted from now; commit, and it is yours. Returns its fence, greater than every earlier one; NULL: busy. A lock whose lease has run out is taken over.
owner: a nonce of the caller''s; the same owner gets the fence that it has and a new lease, without count: one idem_unlock frees. wait: how long to wait (0: not at all, NULL: without bound); those who wait are served one at a time, in the order in which they came.
Errors: 22004 name or scope is null; 22023 name empty or over 1024 bytes, scope over 255 bytes, ttl not positive, negative wait; 25006 in a read-only transaction; 40001 under REPEATABLE READ and SERIALIZABLE, when the lock changed hands after the snapshot; 42501 scope of another owner; and those of any lock wait (40P01, 55P03, 57014).';

CREATE FUNCTION idem_lock_renew(name text, fence bigint, ttl interval DEFAULT NULL, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_lock_renew(text, bigint, interval, text) IS
'Makes the lease last from now on for as long as given (default: the scope''s lease, else idem.default_lease). True also when it had run out but nobody took the lock over; false: no longer yours. Errors: 22004 name, fence or scope is null; the others as idem_lock.';

CREATE FUNCTION idem_unlock(name text, fence bigint, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_unlock(text, bigint, text) IS
'Frees a lock; false: it is no longer yours, and nothing was done. Waits for transactions that asserted the fence and have not ended. Errors: 22004 name, fence or scope is null; the others as idem_lock.';

CREATE FUNCTION idem_assert_fence(name text, fence bigint, scope text DEFAULT '')
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_assert_fence(text, bigint, text) IS
'Makes sure that the lock is held with this fence, and stays so until this transaction ends: nobody can take it over or free it meanwhile, not even when its lease runs out; it may be renewed. Call it before writing what the lock protects.
Errors: ID001 stale fence; 22004 name, fence or scope is null; 25006 in a read-only transaction; the others as idem_lock.';
-- Changing rows of the user's own tables exactly once. All of these run with the caller's privileges and row-level security.

CREATE FUNCTION idem_version_guard() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_version_guard() IS
'Trigger that optimistic_enable puts on a table (BEFORE UPDATE, for each row; argument: the version column): an update leaves the version alone, and it is bumped, or sets it to the old one plus one; anything else is ID004.';

CREATE FUNCTION optimistic_enable(target regclass, version_column name DEFAULT 'version')
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION optimistic_enable(regclass, name) IS
'Gives a table a version column (bigint NOT NULL DEFAULT 1, if it is missing) and the trigger that keeps it honest. Again for the same column: no-op. The trigger does not fire for logical replication''s apply, nor with session_replication_role = replica.
Errors: 22004 an argument is null; 428C9 the column is generated; 42501 not the owner; 42804 the column is not smallint, integer or bigint; 42809 not a table; 55000 the column allows nulls, or another column is guarded already.';

CREATE FUNCTION optimistic_disable(target regclass)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION optimistic_disable(regclass) IS
'Takes the version guard from a table; the column stays. Errors: 42501 not the owner; 55000 there is no guard.';

CREATE FUNCTION optimistic_update(target regclass, key jsonb, expected_version bigint, changes jsonb,
                                  OUT outcome text, OUT version bigint, OUT row_data jsonb)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION optimistic_update(regclass, jsonb, bigint, jsonb) IS
'Changes the row with this key if it still has the expected version, which then grows by one. outcome updated: with the new version and row; conflict: somebody was faster, with the current version and row; not_found.
key, changes: {"column": value, …}, values as in jsonb_populate_record. row_data: the columns that the caller may SELECT.
Errors: 22004 an argument, or a value of key, is null; 22023 not an object, changes contain the version; 40001 under REPEATABLE READ and SERIALIZABLE, when the row changed after the snapshot; 42703 unknown column; 42809 not a table; 42P10 key is not exactly a unique key; 55000 optimistic_enable was not called; 09000 a trigger discarded the update; and whatever the UPDATE raises.';

CREATE FUNCTION conditional_update(target regclass, key jsonb, expected jsonb, changes jsonb, OUT outcome text, OUT row_data jsonb)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION conditional_update(regclass, jsonb, jsonb, jsonb) IS
'Compare and set: changes the row with this key if the columns of expected have these values (null being a value like others). outcome updated, conflict (with the current row) or not_found. Arguments and errors as optimistic_update; 42883 an expected column''s type has no equality operator.';

CREATE FUNCTION conditional_adjust(target regclass, key jsonb, column_name name, delta numeric, minimum numeric DEFAULT 0,
                                   maximum numeric DEFAULT NULL, OUT outcome text, OUT value numeric)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION conditional_adjust(regclass, jsonb, name, numeric, numeric, numeric) IS
'Adds delta to a number if the sum stays within minimum and maximum (null: no bound). outcome adjusted with the new value, out_of_range with the current one, or not_found.
Errors: as optimistic_update; 22003 the column''s type cannot hold the sum; 22004 the number is null; 22023 delta is not finite or would be rounded, minimum is greater than maximum; 42804 the column is not a number.';

CREATE FUNCTION pessimistic_lock(target regclass, key jsonb, wait interval DEFAULT NULL, OUT outcome text, OUT row_data jsonb)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION pessimistic_lock(regclass, jsonb, interval) IS
'Locks the row with this key (SELECT … FOR UPDATE) until the transaction ends, and reads it. outcome locked (with the row), busy (somebody else holds it) or not_found.
wait: how long to wait for another holder; null: without bound, 0: not at all. It bounds each wait for a lock, as lock_timeout does.
Errors: as optimistic_update; 22023 wait is negative or infinite; and those of any lock wait (40P01, 55P03, 57014).';

CREATE FUNCTION pessimistic_lock_many(target regclass, keys jsonb[], wait interval DEFAULT NULL, OUT outcome text, OUT row_data jsonb)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION pessimistic_lock_many(regclass, jsonb[], interval) IS
'Locks many rows as pessimistic_lock does, always in the order of the table''s primary key (without one: of its first unique key), so that two callers cannot deadlock on each other. One result for each key, in the order of the array. Errors: as pessimistic_lock; 40001 a key passed to another row meanwhile.';

CREATE FUNCTION unique_insert(target regclass, new_row jsonb, conflict_columns name[] DEFAULT NULL, OUT outcome text, OUT row_data jsonb)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION unique_insert(regclass, jsonb, name[]) IS
'Inserts the row unless one with the same conflict_columns (null: the primary key) is there. outcome inserted or duplicate; either way row_data is the row that is there now (null when row-level security hides it). Waits for an uncommitted rival.
Errors: 09000 a trigger discarded the row; 22004 new_row is null; 22023 new_row lacks a conflict column whose default differs for each row; 23505 another constraint is violated; 40001 under REPEATABLE READ and SERIALIZABLE, when the duplicate is not in the snapshot; 42703 unknown column; 42809 not a table; 42P10 conflict_columns are not exactly a unique key; and whatever the INSERT raises.';

CREATE FUNCTION guarded_insert(target regclass, new_row jsonb, match_columns name[], OUT outcome text, OUT row_data jsonb)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION guarded_insert(regclass, jsonb, name[]) IS
'As unique_insert, for a table that cannot have the unique index: an ordinary index that begins with match_columns, and a lock on their values until the transaction ends. Guards against other callers of this function, and against nobody else.
Errors: as unique_insert; 22004 also for a null in a match column; 42P10 no index begins with match_columns.';
-- State machines: which states a row may go through, whoever updates it.

CREATE FUNCTION idem_machine_define(name text, definition jsonb)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_define(text, jsonb) IS
'Defines a state machine, or replaces it for every session at once: {"initial": ["a"], "transitions": {"a": ["b", "c"]}}, and optionally "states": […] with all of them. A state may lead to itself. Waits for the writers of the attached tables. Operators.
Errors: 22004 an argument is null; 22023 name empty or over 255 bytes, definition not of that form, no initial state, a state that is empty, unknown, listed twice or cannot be reached, or that the enum of an attached column lacks; 23514 rows of an attached table hold a state that is no longer there; 25006 in a read-only transaction.';

CREATE FUNCTION idem_machine_drop(name text)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_drop(text) IS
'Drops a state machine. Operators. Errors: 2BP01 it is attached to a table; 42704 there is no such machine; 25006 in a read-only transaction.';

CREATE FUNCTION idem_state_guard() RETURNS trigger LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_state_guard() IS
'The trigger that idem_machine_attach puts on a table. Errors, to whoever writes the row: ID003 a new row in a state that is not initial, a transition that the machine does not have, or a state that is null; 42703 the state column was renamed; 42704 the machine is gone; 42P10 a log is wanted, and the key is gone.';

CREATE FUNCTION idem_machine_attach(target regclass, state_column name, machine text, log boolean DEFAULT false)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_attach(regclass, name, text, boolean) IS
'Lets a state machine guard a column: from now on rows start in an initial state and change it by a transition of the machine, whatever client changes them. log: write each move to idem_transition_log. Runs as the caller and needs what CREATE TRIGGER needs.
Errors: 0A000 the column is part of the partition key, or has a nondeterministic collation; 22004 an argument is null; 22023 the column''s enum lacks a state; 23514 rows hold something else than a state; 42501 the caller may not create triggers on the table; 42703 no such column; 42704 no such machine; 42710 the column has a machine; 42804 the column is not text, varchar or an enum; 42809 not a table, or a partition; 42P01 no such table; 42P10 a log is wanted, and the table has no key; 25006 in a read-only transaction.';

CREATE FUNCTION idem_machine_detach(target regclass, state_column name)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_detach(regclass, name) IS
'Takes the guard off a column; its log stays. For a column that was renamed, give the old name. Runs as the caller, who has to own the table.
Errors: 22004 an argument is null; 42501 the caller does not own the table; 42703 no such column; 42704 the column has no machine; 42809 not a table; 42P01 no such table; 25006 in a read-only transaction.';

CREATE FUNCTION idem_can_transition(machine text, from_state text, to_state text)
RETURNS boolean LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_can_transition(text, text, text) IS
'Whether the machine has this transition; false also for what is no state of it. From a state to itself: only if the machine says so. Errors: 22004 an argument is null; 42704 no such machine.';

CREATE FUNCTION idem_check_transition(machine text, from_state text, to_state text)
RETURNS void LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_check_transition(text, text, text) IS
'Nothing if the machine has this transition, otherwise error ID003, whose detail lists the states that can be reached. Errors besides: 22004 an argument is null; 42704 no such machine.';

CREATE FUNCTION idem_machine_dot(name text) RETURNS text LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_dot(text) IS
'The machine as a graph for Graphviz. Errors: 22004 name is null; 42704 no such machine.';

CREATE FUNCTION idem_machine_mermaid(name text) RETURNS text LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_machine_mermaid(text) IS
'The machine as a Mermaid state diagram, for Markdown. Errors: 22004 name is null; 42704 no such machine.';

CREATE FUNCTION idem_transition(target regclass, key jsonb, to_state text, expected_state text DEFAULT NULL, OUT outcome text, OUT state text)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_transition(regclass, jsonb, text, text) IS
'Moves the row with this key to a state, as the machine attached to its table allows. outcome moved; already: it is in that state; conflict: it is not in expected_state; not_allowed: the machine has no such transition; not_found. state: the row''s state, after the move or as it was found.
Errors: as optimistic_update, of which those about versions do not apply; 42702 machines are attached to several columns; 55000 to none.';
-- Who may call what. Nothing that touches idem's tables is PUBLIC's; applications and operators are two grants.

CREATE FUNCTION idem_functions(operator boolean)
RETURNS SETOF regprocedure LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.oid::regprocedure
    FROM pg_depend d
    JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
    JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
    WHERE e.extname = 'idem'
      -- Guards are put on the callers' own tables.
      AND (p.prorettype <> 'trigger'::regtype OR p.proname LIKE 'idem\_%\_guard')
      AND p.proname NOT IN ('idem_functions', 'idem_grant', 'idem_revoke')
      AND NOT has_function_privilege('public', p.oid, 'EXECUTE')
      AND (p.proname IN ('idem_forget', 'idem_resolve', 'idem_scope_set', 'idem_scope_drop', 'idem_machine_define',
                         'idem_machine_drop', 'idem_token_rotate_secret')) = operator
$$;
COMMENT ON FUNCTION idem_functions(boolean) IS
'The functions of one of the two sets that idem_grant hands out: false, those for applications; true, those that operators get besides.';

CREATE FUNCTION idem_grant(role regrole, operator boolean DEFAULT false)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    home     regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'idem');
    function regprocedure;
BEGIN
    IF role IS NULL OR operator IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'role and operator must not be null';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE oid = role) THEN
        RAISE undefined_object USING MESSAGE = format('role with OID %s does not exist', role::oid);
    END IF;
    IF NOT has_schema_privilege(role, home, 'USAGE') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %s TO %s', home, role);
    END IF;
    FOR function IN EXECUTE
        format('SELECT %1$s.idem_functions(false) UNION ALL SELECT %1$s.idem_functions(true) WHERE $1', home) USING operator
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', function, role);
    END LOOP;
END
$$;
COMMENT ON FUNCTION idem_grant(regrole, boolean) IS
'Lets a role use idem: the functions for applications, and with operator => true also those for operators. Grants USAGE on the extension''s schema where it is missing. To be called by the extension''s owner or a superuser.';

CREATE FUNCTION idem_revoke(role regrole)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    home     regnamespace := (SELECT extnamespace FROM pg_extension WHERE extname = 'idem');
    function regprocedure;
BEGIN
    IF role IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'role must not be null';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE oid = role) THEN
        RAISE undefined_object USING MESSAGE = format('role with OID %s does not exist', role::oid);
    END IF;
    FOR function IN EXECUTE
        format('SELECT %1$s.idem_functions(false) UNION ALL SELECT %1$s.idem_functions(true)', home)
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM %s', function, role);
    END LOOP;
END
$$;
COMMENT ON FUNCTION idem_revoke(regrole) IS 'Takes back what idem_grant gave, except USAGE on the schema. To be called by the extension''s owner or a superuser.';

DO $$
DECLARE
    function regprocedure;
BEGIN
    FOR function IN
        SELECT p.oid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_proc p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
        JOIN pg_catalog.pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
        WHERE e.extname = 'idem'
          AND p.proname NOT IN ('idem_key', 'idem_fingerprint', 'idem_fingerprint_text', 'idem_fingerprint_bytes',
                                'idem_next_id', 'idem_id_parts', 'idem_uuid_v7', 'idem_can_transition', 'idem_check_transition')
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END
$$;
