\echo Use "ALTER EXTENSION idem UPDATE TO '0.2.0'" to load this file. \quit

-- 0.2.0 adds sweeping, statistics, idem_in_flight, idem_health and the HTTP layer. Of what 0.1.0 made, the functions that
-- grant change, the triggers that tell sessions of changed scopes and machines, and the table of scopes, which gets columns.
-- The update waits only for transactions that change those, or read that table by themselves (pg_dump), so not for claims.

-- In ASCII: bytes that the database's encoding does not have are not let in.
COMMENT ON FUNCTION idem_execute(text, text, text[], bytea, interval, text) IS
'Claims the key, runs one statement with args as $1, $2 ..., stores its rows as a jsonb array of objects, and answers as idem_begin does; a duplicate gets the stored rows, and the statement does not run. The statement runs with the caller''s privileges and search_path; parameter types are inferred from their use. An error in it frees the key. Never waits for another holder (in_flight).
Errors: as idem_begin, and those of the statement; 22023 number of args; 42601 not exactly one statement; 42701 two result columns of one name; 42P18, 42P08 a parameter whose type cannot be inferred, or not in one way.';
COMMENT ON FUNCTION idem_begin(text, bytea, interval, interval, text, interval, text) IS
'Claims a key, and answers with what is known of it. Without lease: for this transaction, as idem_claim. With lease: commit, do the work outside, then idem_complete or idem_release with the fence.
fingerprint: of the request, to detect a key that is used for another one. owner: a nonce of the caller''s; the same owner gets its unfinished claim back. wait: how long to wait for a holder (0: not at all, NULL: without bound).
Call it as SELECT * FROM idem_begin(...); (idem_begin(...)).* would claim once per column. Errors as idem_claim, without ID005; 22023 also for a negative wait, a lease that is not positive, a fingerprint that is empty or over 255 bytes.';
COMMENT ON FUNCTION optimistic_update(regclass, jsonb, bigint, jsonb) IS
'Changes the row with this key if it still has the expected version, which then grows by one. outcome updated: with the new version and row; conflict: somebody was faster, with the current version and row; not_found.
key, changes: {"column": value, ...}, values as in jsonb_populate_record. row_data: the columns that the caller may SELECT.
Errors: 22004 an argument, or a value of key, is null; 22023 not an object, changes contain the version; 40001 under REPEATABLE READ and SERIALIZABLE, when the row changed after the snapshot; 42703 unknown column; 42809 not a table; 42P10 key is not exactly a unique key; 55000 optimistic_enable was not called; 09000 a trigger discarded the update; and whatever the UPDATE raises.';
COMMENT ON FUNCTION pessimistic_lock(regclass, jsonb, interval) IS
'Locks the row with this key (SELECT ... FOR UPDATE) until the transaction ends, and reads it. outcome locked (with the row), busy (somebody else holds it) or not_found.
wait: how long to wait for another holder; null: without bound, 0: not at all. It bounds each wait for a lock, as lock_timeout does.
Errors: as optimistic_update; 22023 wait is negative or infinite; and those of any lock wait (40P01, 55P03, 57014).';
COMMENT ON FUNCTION idem_machine_define(text, jsonb) IS
'Defines a state machine, or replaces it for every session at once: {"initial": ["a"], "transitions": {"a": ["b", "c"]}}, and optionally "states": [...] with all of them. A state may lead to itself. Waits for the writers of the attached tables. Operators.
Errors: 22004 an argument is null; 22023 name empty or over 255 bytes, definition not of that form, no initial state, a state that is empty, unknown, listed twice or cannot be reached, or that the enum of an attached column lacks; 23514 rows of an attached table hold a state that is no longer there; 25006 in a read-only transaction.';
COMMENT ON TYPE idem_ticket IS 'The answer of idem_begin and idem_execute. Call them as SELECT * FROM idem_begin(...).';
COMMENT ON COLUMN idem_transition_log.key IS 'Which row: {"column": value, ...} of its primary key, or of its first usable unique index.';

-- For each row: a subscriber of logical replication fires no others.
CREATE OR REPLACE TRIGGER idem_definitions_changed AFTER INSERT OR UPDATE OR DELETE ON idem_scopes
    FOR EACH ROW EXECUTE FUNCTION idem_definitions_changed();
CREATE OR REPLACE TRIGGER idem_definitions_truncated AFTER TRUNCATE ON idem_scopes
    FOR EACH STATEMENT EXECUTE FUNCTION idem_definitions_changed();
ALTER TABLE idem_scopes ENABLE ALWAYS TRIGGER idem_definitions_changed, ENABLE ALWAYS TRIGGER idem_definitions_truncated;
COMMENT ON TRIGGER idem_definitions_changed ON idem_scopes IS 'Makes every session read the table again.';
COMMENT ON TRIGGER idem_definitions_truncated ON idem_scopes IS 'Makes every session read the table again.';

CREATE OR REPLACE TRIGGER idem_definitions_changed AFTER INSERT OR UPDATE OR DELETE ON idem_machines
    FOR EACH ROW EXECUTE FUNCTION idem_definitions_changed();
CREATE OR REPLACE TRIGGER idem_definitions_truncated AFTER TRUNCATE ON idem_machines
    FOR EACH STATEMENT EXECUTE FUNCTION idem_definitions_changed();
ALTER TABLE idem_machines ENABLE ALWAYS TRIGGER idem_definitions_changed, ENABLE ALWAYS TRIGGER idem_definitions_truncated;
COMMENT ON TRIGGER idem_definitions_changed ON idem_machines IS 'Makes every session read the table again.';
COMMENT ON TRIGGER idem_definitions_truncated ON idem_machines IS 'Makes every session read the table again.';

-- The inbox: one effect per consumer and message.

CREATE FUNCTION idem_consume(consumer text, message_id text, ttl interval DEFAULT NULL)
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_consume(text, text, interval) IS
'True: this message is new to this consumer; have its effect in this transaction. False: its effect has committed before. Either way it may be acknowledged, once this transaction has committed. A rollback makes the message new again. Waits for a transaction that has the same message in hand.
It is the claim of the key idem_key(consumer, message_id) in the scope ''inbox'', whose policy and owner apply; ttl: how long the message is remembered, longer than the broker may redeliver it.
Errors: 22004 consumer or message_id is null; 22023 one is empty, or both together have over 1024 bytes; the others as idem_claim.';

-- Signed requests: who sent it, that nobody changed it, and that it has not been here before.

CREATE TYPE idem_request_outcome AS ENUM ('accepted', 'replayed', 'stale', 'invalid');
COMMENT ON TYPE idem_request_outcome IS
'What a signed request is. accepted: genuine, fresh and new; replayed: it was accepted before, and that has committed; stale: genuine, but signed too long ago, or too far ahead; invalid: no secret of its key id signed it.';

CREATE FUNCTION idem_verify_request(params jsonb, signature text, key_id text, signed_at timestamptz, nonce text,
                                    tolerance interval DEFAULT '5 min')
RETURNS idem_request_outcome LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_verify_request(jsonb, text, text, timestamptz, text, interval) IS
'Checks a request that somebody signed with a secret of key_id: signature is HMAC-SHA256, in hexadecimal digits, of what idem_request_message gives for it. Compared in constant time. A request that is genuine, and signed no further than tolerance from now, is accepted once: its nonce, any text that the sender uses once, is the key idem_key(key_id, nonce) in the scope ''nonce'', kept for twice the tolerance. Transactional: a rollback makes the nonce new again. Waits for a transaction that has the same nonce in hand. Always use the same tolerance.
Errors: 22004 an argument is null; 22023 params is no object, tolerance not positive or over 7 days; 25006 a genuine request in a read-only transaction; the others as idem_claim. Whatever else a sender can get wrong is invalid, also a message of over 1 MB.';

CREATE FUNCTION idem_request_message(params jsonb, key_id text, signed_at timestamptz, nonce text)
RETURNS text LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_request_message(jsonb, text, timestamptz, text) IS
'What is signed, for whoever writes a sender: the JSON array ["idem1", key_id, signed_at in microseconds since 1970, nonce, params] without white space, names sorted by code point, in UTF-8, as RFC 8785 has it; numbers in plain decimal notation. In Python json.dumps(..., sort_keys=True, separators=('','', '':''), ensure_ascii=False). A name that is given twice must be an array: jsonb would keep the last value only.
Errors: 22004 an argument is null; 22023 params is no object, signed_at is infinite or out of range; 54000 a message of over 1 MB.';

CREATE FUNCTION idem_api_key_set(key_id text, secret bytea, keep_old interval DEFAULT '0')
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_api_key_set(text, bytea, interval) IS
'Gives a key id a secret to sign requests with; from its commit on. The secret that it had verifies for keep_old longer, so that senders can change over. Secrets are in no dump: set them again after a restore. Pass the secret as a parameter, so that it is in no statement that is logged. Operators.
Errors: 22004 an argument is null; 22023 key_id empty or over 255 bytes, secret under 16 or over 1024 bytes, keep_old negative; 25006 in a read-only transaction.';

CREATE FUNCTION idem_api_key_drop(key_id text) RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_api_key_drop(text) IS
'Takes a key id all its secrets, at once; false when it had none. Operators. Errors: 22004, 22023, 25006 as idem_api_key_set.';

-- As with idem_token_secrets: no index, no statistics, nothing that could carry a secret away.
CREATE TABLE idem_api_keys (
    key_id     text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    secret     bytea       NOT NULL
);
ALTER TABLE idem_api_keys ALTER key_id SET STATISTICS 0, ALTER created_at SET STATISTICS 0, ALTER expires_at SET STATISTICS 0,
    ALTER secret SET STATISTICS 0, ALTER secret SET STORAGE PLAIN;
COMMENT ON TABLE idem_api_keys IS
'What signed requests are verified with. Not dumped: set the secrets again after a restore. Change it only by idem_api_key_set and idem_api_key_drop; whoever can read it can sign.';
COMMENT ON COLUMN idem_api_keys.key_id IS 'What requests name their secret by; 1 to 255 bytes.';
COMMENT ON COLUMN idem_api_keys.created_at IS 'When it was set.';
COMMENT ON COLUMN idem_api_keys.expires_at IS 'Until when it verifies; infinity: until it is replaced.';
COMMENT ON COLUMN idem_api_keys.secret IS 'The key of HMAC-SHA256; of one over 64 bytes, its SHA-256, which gives the same.';
REVOKE ALL ON idem_api_keys FROM PUBLIC;

-- Whoever deletes a secret by hand means it.
CREATE TRIGGER idem_api_keys_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON idem_api_keys
    FOR EACH STATEMENT EXECUTE FUNCTION idem_definitions_changed();
ALTER TABLE idem_api_keys ENABLE ALWAYS TRIGGER idem_api_keys_changed;
COMMENT ON TRIGGER idem_api_keys_changed ON idem_api_keys IS 'Makes every session read the table again.';

-- A bucket is a row that changes with every call that it lets through: leave half of each page for that.
CREATE TABLE idem_rates (
    LIKE idem_keys INCLUDING COMMENTS INCLUDING INDEXES, CHECK (state IN ('p', 'c', 'r', 'd'))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE idem_rates IS
'Token buckets of idem_allow: one row for each name in its scope, until the bucket is full again; a space of names apart from the keys, with the same columns. Change it only by the functions.';
COMMENT ON COLUMN idem_rates.created_at IS 'When the bucket was first asked for (database time).';
COMMENT ON COLUMN idem_rates.expires_at IS 'When the bucket is full again.';
COMMENT ON COLUMN idem_rates.attempt IS 'Always 1.';
COMMENT ON COLUMN idem_rates.state IS 'Always c.';
COMMENT ON COLUMN idem_rates.scope IS 'The space in which the name is unique; at most 255 bytes.';
COMMENT ON COLUMN idem_rates.key IS 'The name; 1 to 1024 bytes.';
COMMENT ON COLUMN idem_rates.fence IS 'When the bucket is full again, in nanoseconds since 2000-01-01 UTC.';

REVOKE ALL ON idem_rates FROM PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('idem_rates', '');

-- Rate limits.

CREATE FUNCTION idem_allow(name text, rate double precision, burst integer, cost integer DEFAULT 1, scope text DEFAULT '',
                           OUT allowed boolean, OUT remaining integer, OUT retry_after interval)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_allow(text, double precision, integer, integer, text) IS
'Whether there is room for cost units under this name, and if so takes them: a token bucket that holds burst units and gets rate units a second (GCRA). In no span of time are more than burst + rate * span let through, however many ask at once. remaining: whole units left; retry_after: until there would be room, NULL when allowed.
Transactional: a rollback gives the units back, and until the commit others who ask for the same name wait. So ask in a transaction of its own, before the work. Who is refused writes nothing. Names share no space with keys, locks and counters; a row per name, swept when its bucket is full.
Errors: 22004 an argument is null; 22023 name empty or over 1024 bytes, scope over 255 bytes, rate not positive or over 1e9, burst or cost not positive, cost over burst; 25006 in a read-only transaction; 42501 scope of another owner.';

-- How scopes answer HTTP requests.
ALTER TABLE idem_scopes
    ADD COLUMN missing_key_status   integer CHECK (missing_key_status BETWEEN 400 AND 599),
    ADD COLUMN malformed_key_status integer CHECK (malformed_key_status BETWEEN 400 AND 599),
    ADD COLUMN mismatch_status      integer CHECK (mismatch_status BETWEEN 400 AND 599),
    ADD COLUMN in_flight_status     integer CHECK (in_flight_status BETWEEN 400 AND 599),
    ADD COLUMN in_doubt_status      integer CHECK (in_doubt_status BETWEEN 400 AND 599),
    ADD COLUMN stored_headers       text[];
COMMENT ON TABLE idem_scopes IS 'Policies of the scopes that have one (idem_scope_set, idem_http_scope_set). NULL: the setting applies.';
COMMENT ON COLUMN idem_scopes.missing_key_status IS 'Status of idem_http_begin for a request without a key; NULL: 400.';
COMMENT ON COLUMN idem_scopes.malformed_key_status IS 'The same for a key that is malformed; NULL: 400.';
COMMENT ON COLUMN idem_scopes.mismatch_status IS 'The same for a key of another request; NULL: 422.';
COMMENT ON COLUMN idem_scopes.in_flight_status IS 'The same for a key whose request is being processed; NULL: 409.';
COMMENT ON COLUMN idem_scopes.in_doubt_status IS 'The same for a key that is in doubt; NULL: 409.';
COMMENT ON COLUMN idem_scopes.stored_headers IS 'The header fields that idem_http_complete stores; NULL: those that docs/http.md lists.';

-- HTTP: from the Idempotency-Key header to a replayed response.

CREATE TYPE idem_http_answer AS (
    action  text,
    status  integer,
    headers jsonb,
    body    jsonb,
    fence   bigint
);
COMMENT ON TYPE idem_http_answer IS 'The answer of idem_http_begin. Call it as SELECT * FROM idem_http_begin(...).';
COMMENT ON COLUMN idem_http_answer.action IS 'run: do the work; replay: it is done, send the stored response; reject: do nothing, send the error.';
COMMENT ON COLUMN idem_http_answer.status IS 'Status of the response to send; NULL for run.';
COMMENT ON COLUMN idem_http_answer.headers IS 'Header fields of the response to send, {"name": "value" or ["value", ...]}; NULL for run.';
COMMENT ON COLUMN idem_http_answer.body IS 'Body of the response to send: the stored one, or the error as application/problem+json (RFC 9457). NULL for run, and where none was stored.';
COMMENT ON COLUMN idem_http_answer.fence IS 'Fencing token of the holder; run in leased mode only.';

CREATE FUNCTION idem_http_begin(method text, route text, idempotency_key text, body bytea DEFAULT NULL, lease interval DEFAULT NULL,
                                wait interval DEFAULT '0', ttl interval DEFAULT NULL, scope text DEFAULT '')
RETURNS idem_http_answer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_http_begin(text, text, text, bytea, interval, interval, interval, text) IS
'Says what to do with an HTTP request: run it, replay the response it had, or reject it. For GET, HEAD, OPTIONS, TRACE, PUT and DELETE always run, and no key is claimed. Other methods claim the key as idem_begin does, with method, route and body as the fingerprint.
idempotency_key: the header field as it came, NULL where it is missing; quoted (RFC 9651) or bare. route: what the request is for, such as its path. body: as it came, NULL: none. lease, wait, ttl: as of idem_begin.
reject: 400 key missing or malformed, 422 another request''s key, 409 in flight (with Retry-After) or in doubt; idem_http_scope_set changes the codes. Call it as SELECT * FROM idem_http_begin(...).
Errors: 22004 method, route or scope is null; 22023 method is not a token, and as idem_begin.';

CREATE FUNCTION idem_http_complete(idempotency_key text, status integer, headers jsonb, body jsonb, fence bigint DEFAULT NULL,
                                   scope text DEFAULT '')
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_http_complete(text, integer, jsonb, jsonb, bigint, text) IS
'Stores the response of a request that idem_http_begin said to run, so that it can be replayed. Does nothing when idempotency_key is NULL: pass NULL for methods that claim no key.
headers: {"name": "value" or ["value", ...]}; only those that the scope stores are kept, never Set-Cookie nor those of a connection. body: NULL for none. Over the scope''s max_response_size, status and headers alone are stored, with a warning.
Errors: ID001 stale fence, or without fence not this transaction''s claim; 22004 status is null; 22023 malformed key, status not from 100 to 599, headers not as above or with CR, LF or NUL in a value.';

CREATE FUNCTION idem_http_key(idempotency_key text) RETURNS text LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_http_key(text) IS
'The key in an Idempotency-Key header field, quoted or bare, as idem_lookup, idem_release and the others take it. NULL when it is malformed: neither a Structured Fields string (RFC 9651) nor visible ASCII without quotes and commas, empty, or over 1024 bytes.';

CREATE FUNCTION idem_http_scope_set(scope text, missing_key_status integer DEFAULT NULL, malformed_key_status integer DEFAULT NULL,
                                    mismatch_status integer DEFAULT NULL, in_flight_status integer DEFAULT NULL,
                                    in_doubt_status integer DEFAULT NULL, stored_headers text[] DEFAULT NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_http_scope_set(text, integer, integer, integer, integer, integer, text[]) IS
'Registers a scope, or changes how it answers HTTP requests: the status of each rejection, and which header fields are stored with a response. NULL leaves as is. Holds for every session at once. Operators.
Errors: 22004 scope or a name is null; 22023 scope over 255 bytes, a status not from 400 to 599, stored_headers with what is no field name, Set-Cookie, or a field of the connection; 42501 the scope has an owner whose privileges the caller lacks.';

-- Outbox: messages that commit with the business rows, and are handed to relays until one of them acknowledges them.

-- The only index is the primary key: a relay reads a topic in the order of ids, and what becomes of a message while it is out is
-- in idem_outbox_leases, not here.
CREATE TABLE idem_outbox (
    id          bigint  NOT NULL,
    due_at      timestamptz,
    returned_by bigint,
    failures    integer NOT NULL DEFAULT 0,
    topic       text COLLATE "C" NOT NULL,
    key         text COLLATE "C",
    payload     jsonb   NOT NULL,
    headers     jsonb,
    PRIMARY KEY (topic, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
COMMENT ON TABLE idem_outbox IS
'Messages that are not acknowledged yet. Read it freely; change it only by the functions. User triggers and row-level security on it have no effect on them.';
COMMENT ON COLUMN idem_outbox.id IS 'A number of idem_next_id, drawn when the message was published: idem_id_parts tells when. Messages of a topic are given out in this order.';
COMMENT ON COLUMN idem_outbox.due_at IS 'Not to be given out before; NULL: at once.';
COMMENT ON COLUMN idem_outbox.returned_by IS 'Fence of the last lease that ended without its acknowledgement: no lease up to this one holds it any more.';
COMMENT ON COLUMN idem_outbox.failures IS 'How often it was given out without success.';
COMMENT ON COLUMN idem_outbox.topic IS 'What relays ask for; 1 to 255 bytes.';
COMMENT ON COLUMN idem_outbox.key IS 'Messages of a topic with the same key are given out one after the other; NULL: in any order. At most 1024 bytes.';
COMMENT ON COLUMN idem_outbox.payload IS 'The message.';
COMMENT ON COLUMN idem_outbox.headers IS 'What the publisher gave besides.';

CREATE TABLE idem_outbox_leases (
    fence       bigint      PRIMARY KEY,
    lease_until timestamptz NOT NULL,
    topic       text COLLATE "C" NOT NULL,
    ids         bigint[]    NOT NULL,
    key_hashes  bigint[]    NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE idem_outbox_leases ALTER topic SET STORAGE PLAIN, ALTER ids SET STORAGE PLAIN, ALTER key_hashes SET STORAGE PLAIN;
COMMENT ON TABLE idem_outbox_leases IS
'Batches that relays have: one row for each call of idem_outbox_take that found something, never updated, deleted with the last of its messages. Not dumped: what was given out is given out again after a restore.';
COMMENT ON COLUMN idem_outbox_leases.fence IS 'Fencing token of the batch.';
COMMENT ON COLUMN idem_outbox_leases.lease_until IS 'From when on the next relay takes its messages back.';
COMMENT ON COLUMN idem_outbox_leases.topic IS 'The topic of its messages.';
COMMENT ON COLUMN idem_outbox_leases.ids IS 'Its messages; those that were acknowledged or given back since are still named.';
COMMENT ON COLUMN idem_outbox_leases.key_hashes IS 'Hashes of their keys, in the same order; 0: no key.';

CREATE TABLE idem_outbox_parked (
    id          bigint      PRIMARY KEY,
    parked_at   timestamptz NOT NULL,
    returned_by bigint      NOT NULL,
    failures    integer     NOT NULL,
    cause       text COLLATE "C" NOT NULL,
    topic       text COLLATE "C" NOT NULL,
    key         text COLLATE "C",
    payload     jsonb       NOT NULL,
    headers     jsonb
);
COMMENT ON TABLE idem_outbox_parked IS
'Dead letters: messages that failed idem.outbox_max_attempts times. Read the view idem_dead_letters; idem_outbox_retry and idem_outbox_discard take them out.';
COMMENT ON COLUMN idem_outbox_parked.id IS 'As in idem_outbox.';
COMMENT ON COLUMN idem_outbox_parked.parked_at IS 'When it was parked.';
COMMENT ON COLUMN idem_outbox_parked.returned_by IS 'As in idem_outbox.';
COMMENT ON COLUMN idem_outbox_parked.failures IS 'How often it was given out without success.';
COMMENT ON COLUMN idem_outbox_parked.cause IS 'How the last attempt ended: nacked, or lapsed (nobody answered before the lease ran out).';
COMMENT ON COLUMN idem_outbox_parked.topic IS 'As in idem_outbox.';
COMMENT ON COLUMN idem_outbox_parked.key IS 'As in idem_outbox.';
COMMENT ON COLUMN idem_outbox_parked.payload IS 'As in idem_outbox.';
COMMENT ON COLUMN idem_outbox_parked.headers IS 'As in idem_outbox.';

-- Leases are not: after a restore the messages are given out again.
SELECT pg_catalog.pg_extension_config_dump('idem_outbox', '');
SELECT pg_catalog.pg_extension_config_dump('idem_outbox_parked', '');

REVOKE ALL ON idem_outbox, idem_outbox_leases, idem_outbox_parked FROM PUBLIC;

CREATE FUNCTION idem_publish(topic text, payload jsonb, key text DEFAULT NULL, headers jsonb DEFAULT NULL)
RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_publish(text, jsonb, text, jsonb) IS
'Puts a message into the outbox, in this transaction: it is there for relays when the transaction commits, and never was when it rolls back. Returns its id, a number of idem_next_id.
key: messages of the topic with the same key are given out in the order of their ids, the next one only when the one before is done with. Commit wakes relays by NOTIFY idem_outbox with the topic, unless idem.outbox_notify is off.
A transaction that publishes cannot be prepared (0A000: NOTIFY), unless idem.outbox_notify is off in it; the same is true of idem_outbox_retry, and of idem_outbox_nack without a rest.
Errors: 22004 topic or payload is null; 22023 topic empty or over 255 bytes, key empty or over 1024 bytes; 25006 in a read-only transaction.';

CREATE FUNCTION idem_outbox_take(topic text, max_messages integer DEFAULT 100, lease interval DEFAULT '30 s', OUT id bigint, OUT topic text,
                                 OUT key text, OUT payload jsonb, OUT headers jsonb, OUT attempt integer, OUT fence bigint)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION idem_outbox_take(text, integer, interval) IS
'Gives out up to max_messages of the topic''s messages (never more than 400), oldest first, for as long as lease says (counted from now): until then nobody else gets them, and idem_outbox_ack or idem_outbox_nack with this fence say what became of them. Commit, and they are yours. attempt is 1 the first time.
Of each key at most one message, and none while another one of that key is out, or is waiting for its next attempt. Messages of leases that ran out are taken back first: that counts as a failure. Never waits for another transaction''s end; sees what has committed by now, in every isolation level; when there is nothing to give out or to take back, writes nothing.
Errors: 22004 an argument is null; 22023 topic empty or over 255 bytes, max_messages not from 1 to 10000, lease not positive; 25006 in a read-only transaction.';

CREATE FUNCTION idem_outbox_ack(ids bigint[], fence bigint)
RETURNS integer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_outbox_ack(bigint[], bigint) IS
'The messages were delivered: deletes those that idem_outbox_take gave out with this fence, and returns how many. Less than were asked for: the others were acknowledged or given back before, are of another batch, or the lease ran out and another relay has taken them back. A lease that ran out but was not taken back still acknowledges.
Waits for another transaction that acknowledges messages of the same batch. Errors: 22004 ids, one of them, or fence is null; 25006 in a read-only transaction; and those of any lock wait (40P01, 55P03, 57014).';

CREATE FUNCTION idem_outbox_nack(ids bigint[], fence bigint, retry_after interval DEFAULT NULL)
RETURNS integer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_outbox_nack(bigint[], bigint, interval) IS
'The messages could not be delivered: gives them back, and returns how many. They count as failed once more and are given out again after retry_after (0: at once; NULL: 1 s, twice as much with each failure, at most 5 min); with idem.outbox_max_attempts failures they are parked, and no longer hold up their key.
Errors: 22004 ids, one of them, or fence is null; 22023 retry_after negative or infinite; the others as idem_outbox_ack.';

CREATE FUNCTION idem_outbox_retry(ids bigint[])
RETURNS integer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_outbox_retry(bigint[]) IS
'Puts dead letters back into the outbox, as if they had never failed, and returns how many. They keep their ids: they come before later messages of their key that are still there. Operators. Errors: 22004 ids or one of them is null; 25006 in a read-only transaction.';

CREATE FUNCTION idem_outbox_discard(ids bigint[])
RETURNS integer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_outbox_discard(bigint[]) IS
'Deletes dead letters, and returns how many. Operators. Errors: as idem_outbox_retry.';

-- The body is parsed here and now, so its names are those of this schema, whatever the schema's name.
CREATE FUNCTION idem_outbox_dead_letters(OUT id bigint, OUT topic text, OUT key text, OUT payload jsonb, OUT headers jsonb, OUT attempts integer,
                                         OUT cause text, OUT published_at timestamptz, OUT parked_at timestamptz)
RETURNS SETOF record LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT p.id, p.topic, p.key, p.payload, p.headers, p.failures, p.cause, (idem_id_parts(p.id)).at, p.parked_at
      FROM idem_outbox_parked p
     ORDER BY p.id;
END;
COMMENT ON FUNCTION idem_outbox_dead_letters() IS 'Internal: what the view idem_dead_letters shows, to whom EXECUTE is granted. Operators.';

CREATE VIEW idem_dead_letters AS
    SELECT id, topic, key, payload, headers, attempts, cause, published_at, parked_at FROM idem_outbox_dead_letters();
COMMENT ON VIEW idem_dead_letters IS
'Messages that failed idem.outbox_max_attempts times: they are given out no more, until idem_outbox_retry, and hold nothing up. Operators.';
COMMENT ON COLUMN idem_dead_letters.id IS 'What idem_outbox_retry and idem_outbox_discard take.';
COMMENT ON COLUMN idem_dead_letters.topic IS 'The topic.';
COMMENT ON COLUMN idem_dead_letters.key IS 'The key, if it has one.';
COMMENT ON COLUMN idem_dead_letters.payload IS 'The message.';
COMMENT ON COLUMN idem_dead_letters.headers IS 'What the publisher gave besides.';
COMMENT ON COLUMN idem_dead_letters.attempts IS 'How often it was given out.';
COMMENT ON COLUMN idem_dead_letters.cause IS 'How the last attempt ended: nacked, or lapsed (nobody answered before the lease ran out).';
COMMENT ON COLUMN idem_dead_letters.published_at IS 'When it was published, by its id.';
COMMENT ON COLUMN idem_dead_letters.parked_at IS 'When it was parked.';

-- Whoever may execute the function behind it sees something; that is what idem_grant grants.
GRANT SELECT ON idem_dead_letters TO PUBLIC;

-- Sweeping: the deletion of what has expired, and how far it has come.

-- No foreign key and no index but this one: rows are few, and each is its sweep's alone.
CREATE TABLE idem_sweeps (
    swept         regclass    NOT NULL,
    slot          integer     NOT NULL,
    pid           integer     NOT NULL,
    started_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    finished_at   timestamptz,
    complete_from timestamptz,
    next_block    bigint      NOT NULL DEFAULT 0,
    blocks_total  bigint      NOT NULL,
    blocks_done   bigint      NOT NULL DEFAULT 0,
    rows_deleted  bigint      NOT NULL DEFAULT 0,
    rows_held     bigint      NOT NULL DEFAULT 0,
    batches       bigint      NOT NULL DEFAULT 0,
    PRIMARY KEY (swept, slot)
) WITH (fillfactor = 20);
COMMENT ON TABLE idem_sweeps IS
'The last sweep of each table, and where to go on when it was interrupted; several at the same time have a slot each. Read the view idem_sweep_progress. Not dumped.';
COMMENT ON COLUMN idem_sweeps.swept IS 'The table.';
COMMENT ON COLUMN idem_sweeps.slot IS '0, and more when several sweep the table at the same time.';
COMMENT ON COLUMN idem_sweeps.pid IS 'The process that swept.';
COMMENT ON COLUMN idem_sweeps.started_at IS 'When the sweep began.';
COMMENT ON COLUMN idem_sweeps.updated_at IS 'When the row was last written.';
COMMENT ON COLUMN idem_sweeps.finished_at IS 'When the sweep came to its end; NULL: it has not.';
COMMENT ON COLUMN idem_sweeps.complete_from IS 'When the last sweep that came to its end began: what expired before was swept, except rows in use.';
COMMENT ON COLUMN idem_sweeps.next_block IS 'Where the next sweep begins.';
COMMENT ON COLUMN idem_sweeps.blocks_total IS 'Blocks of the table when the sweep began.';
COMMENT ON COLUMN idem_sweeps.blocks_done IS 'Blocks that were looked at.';
COMMENT ON COLUMN idem_sweeps.rows_deleted IS 'Rows that were deleted.';
COMMENT ON COLUMN idem_sweeps.rows_held IS 'Expired rows that were left alone, because somebody held them.';
COMMENT ON COLUMN idem_sweeps.batches IS 'Transactions that deleted rows.';
REVOKE ALL ON idem_sweeps FROM PUBLIC;

-- A sweep holds a lock for each table as long as it works there (extension/src/sweep_progress.hpp). The body is parsed here and now, so its
-- names are those of this schema, whatever the schema's name.
CREATE FUNCTION idem_sweep_status(OUT table_name text, OUT state text, OUT pid integer, OUT started_at timestamptz, OUT updated_at timestamptz,
                                  OUT finished_at timestamptz, OUT blocks_total bigint, OUT blocks_done bigint, OUT rows_deleted bigint,
                                  OUT rows_held bigint, OUT batches bigint, OUT complete_from timestamptz)
RETURNS SETOF record LANGUAGE sql VOLATILE PARALLEL RESTRICTED SECURITY DEFINER ROWS 4
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT c.relname::text,
           CASE WHEN l.pid IS NOT NULL THEN 'running' WHEN s.finished_at IS NOT NULL THEN 'finished' ELSE 'interrupted' END,
           coalesce(l.pid, s.pid), s.started_at, s.updated_at, s.finished_at, s.blocks_total, s.blocks_done,
           s.rows_deleted, s.rows_held, s.batches, s.complete_from
    FROM idem_sweeps s
    JOIN pg_class c ON c.oid = s.swept::oid
    LEFT JOIN pg_locks l
      ON l.locktype = 'advisory' AND l.objsubid = 7651 AND l.mode = 'ExclusiveLock' AND l.granted
         AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
         AND l.objid = s.swept::oid AND l.classid = s.slot::oid
    ORDER BY c.relname, s.slot;
END;
COMMENT ON FUNCTION idem_sweep_status() IS 'Internal: what the view idem_sweep_progress shows, to whom EXECUTE is granted. Operators.';

CREATE VIEW idem_sweep_progress AS
    SELECT table_name, state, pid, started_at, updated_at, finished_at, blocks_total, blocks_done, rows_deleted, rows_held, batches,
           complete_from
      FROM idem_sweep_status();
COMMENT ON VIEW idem_sweep_progress IS
'Sweeps that are running, and the last one of each table: as of its last committed batch. Operators.';
COMMENT ON COLUMN idem_sweep_progress.table_name IS 'The table that is swept.';
COMMENT ON COLUMN idem_sweep_progress.state IS 'running, finished, or interrupted: the next sweep goes on where it stopped.';
COMMENT ON COLUMN idem_sweep_progress.pid IS 'The process that sweeps, or swept.';
COMMENT ON COLUMN idem_sweep_progress.started_at IS 'When the sweep of the table began.';
COMMENT ON COLUMN idem_sweep_progress.updated_at IS 'When the row was last written.';
COMMENT ON COLUMN idem_sweep_progress.finished_at IS 'When the sweep of the table came to its end.';
COMMENT ON COLUMN idem_sweep_progress.blocks_total IS 'Blocks of the table when the sweep began.';
COMMENT ON COLUMN idem_sweep_progress.blocks_done IS 'Blocks that were looked at.';
COMMENT ON COLUMN idem_sweep_progress.rows_deleted IS 'Rows that were deleted.';
COMMENT ON COLUMN idem_sweep_progress.rows_held IS 'Expired rows that were left alone, because somebody held them.';
COMMENT ON COLUMN idem_sweep_progress.batches IS 'Transactions that deleted rows.';
COMMENT ON COLUMN idem_sweep_progress.complete_from IS 'When the last sweep that came to its end began: what expired before was swept, except rows in use.';

-- Whoever may execute the function behind it sees something; that is what idem_grant grants.
GRANT SELECT ON idem_sweep_progress TO PUBLIC;

CREATE PROCEDURE idem_sweep(batch integer DEFAULT 10000, pause interval DEFAULT '0')
LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON PROCEDURE idem_sweep(integer, interval) IS
'Deletes what has expired: keys, redeemed tokens, counters, locks that have been free for a day, and rates whose bucket is full. In batches of at most that many rows and about 50 ms, each committed by itself, with a pause in between. Never a live lease, nor a key in doubt; rows that somebody holds are left for the next sweep. Can be cancelled at any time: what is committed is done, and the next sweep goes on from there. Several at once are fine. Tells its progress in NOTICEs and in idem_sweep_progress. Sweeps every scope, whoever owns it. Operators.
Errors: 2D000 inside a transaction block, function or exception block; 22004 an argument is null; 22023 batch not positive, pause negative; 25006 in a read-only transaction or on a standby.';

-- What was answered, scope by scope: counted in shared memory, so only when the library is preloaded.

CREATE FUNCTION idem_stats_counters(OUT scope text, OUT is_other boolean, OUT acquired bigint, OUT duplicates bigint, OUT in_flight bigint,
                                    OUT in_doubt bigint, OUT mismatches bigint, OUT takeovers bigint, OUT stale_fences bigint,
                                    OUT swept bigint)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 100 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_stats_counters() IS 'Internal: what the view idem_stats shows, to whom EXECUTE is granted.';

CREATE VIEW idem_stats AS
    SELECT scope, acquired, duplicates, in_flight, in_doubt, mismatches, takeovers, stale_fences, swept, is_other
      FROM idem_stats_counters();
COMMENT ON VIEW idem_stats IS
'What was answered in each scope of this database since idem_stats_reset, or since the counters began; keys, tokens and locks of a scope together. Empty unless idem is in shared_preload_libraries.
Answers are counted when they are given, also in transactions that roll back afterwards: a claim that was rolled back and made again was acquired twice. Calls that end in another error than ID001 or ID005 are not counted.
Counters survive a restart of the server, not a crash. A scope with an owner is shown to roles that have the owner''s privileges. Scopes beyond idem.stats_max_scopes are counted together, in a row with is_other.';
COMMENT ON COLUMN idem_stats.scope IS 'The scope; NULL where is_other.';
COMMENT ON COLUMN idem_stats.acquired IS 'Claims that were granted: keys, tokens, locks; not counting takeovers.';
COMMENT ON COLUMN idem_stats.duplicates IS 'Claims of keys whose work had committed, and of tokens that were redeemed.';
COMMENT ON COLUMN idem_stats.in_flight IS 'Claims that found another holder, also where the answer is ID005; locks that were busy.';
COMMENT ON COLUMN idem_stats.in_doubt IS 'Claims of keys in doubt, also where the answer is ID005.';
COMMENT ON COLUMN idem_stats.mismatches IS 'Claims with another fingerprint than the stored one.';
COMMENT ON COLUMN idem_stats.takeovers IS 'Claims that took over from a holder whose lease had run out.';
COMMENT ON COLUMN idem_stats.stale_fences IS 'Changes that were refused because the fence was not, or no longer, the holder''s: ID001, and false from idem_lock_renew and idem_unlock.';
COMMENT ON COLUMN idem_stats.swept IS 'Expired keys, redeemed tokens and locks that were swept.';
COMMENT ON COLUMN idem_stats.is_other IS 'True: not one scope, but all for which idem.stats_max_scopes left no room.';

-- Whoever may execute the function behind it sees something; that is what idem_grant grants.
GRANT SELECT ON idem_stats TO PUBLIC;

CREATE FUNCTION idem_stats_reset() RETURNS void LANGUAGE c VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_stats_reset() IS
'Sets the counters of idem_stats back to zero, in this database, for the scopes that the caller may use. Holds at once, and is not undone by a rollback. Operators.';

-- Whose work is not done yet.

CREATE FUNCTION idem_in_flight(OUT scope text, OUT key text, OUT mode text, OUT pid integer, OUT since timestamptz, OUT lease_until timestamptz)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL RESTRICTED ROWS 100 COST 100000 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_in_flight() IS
'The keys that somebody is working on: those that a transaction claimed, changed or deleted and has not committed (pid: its process; NULL: it is prepared), and those that are leased or in doubt (pid is NULL, lease_until may have passed). mode: transactional or leased; since: when it was claimed. In order of place, for the scopes that the caller may use.
Shows the moment, not the snapshot: a key that changes hands meanwhile may be shown twice, or not at all. On a standby only what is committed and leased. Reads the whole table idem_keys once, past the cache for the most part; waits for nobody, writes nothing, can be cancelled. Operators.';

-- What an operator would want to know before a night's sleep.

CREATE FUNCTION idem_health_library(OUT version text, OUT is_preloaded boolean, OUT trouble text)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_health_library() IS
'Internal, for idem_health: the version of the library, whether it was preloaded, and what it finds changed on the extension''s tables.';

CREATE FUNCTION idem_health_sample(space text, budget interval, OUT pages bigint, OUT pages_read bigint, OUT live_rows bigint,
                                   OUT expired bigint, OUT oldest_expiry timestamptz, OUT leases bigint, OUT oldest_lease timestamptz,
                                   OUT lapsed bigint, OUT oldest_lapse timestamptz, OUT in_doubt bigint)
RETURNS record LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_health_sample(text, interval) IS
'Internal, for idem_health: what is in idem_keys, idem_tokens, idem_locks or idem_rates, from as many pages, evenly spread, as can be read in the time given.';

CREATE FUNCTION idem_health(OUT check_name text, OUT ok boolean, OUT detail text)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER ROWS 20
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    most_expired CONSTANT bigint := 10000;
    library   record;
    installed text := (SELECT extversion FROM pg_extension WHERE extname = 'idem');
    home      text := (SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'idem');
    space     text;
    shared    bigint;
    topic     text;
    since     timestamptz;
    sample    record;
    factor    float8;
BEGIN
    -- The library and the SQL
    BEGIN
        EXECUTE format('SELECT * FROM %s.idem_health_library()', home) INTO library;
    EXCEPTION WHEN undefined_function OR undefined_file THEN
        RETURN QUERY SELECT 'version', false,
            format('The library is older than the SQL (%s): %s. Install the library of this version and restart the server.', installed, SQLERRM);
        RETURN;
    END;
    RETURN QUERY SELECT 'version', library.version = installed,
        format('The library has version %s, the SQL in this database %s.', library.version, installed) ||
        CASE WHEN library.version = installed THEN ''
             ELSE ' Run ALTER EXTENSION idem UPDATE, or install the library of that version and restart the server.' END;
    RETURN QUERY SELECT 'preload', library.is_preloaded,
        CASE WHEN library.is_preloaded THEN 'The library is preloaded.'
             ELSE 'The library is not in shared_preload_libraries: idem_stats is empty, and no background worker sweeps.' END;
    RETURN QUERY SELECT 'tables', library.trouble IS NULL AND count(*) = 0,
        concat_ws('; ', coalesce(library.trouble, CASE WHEN count(*) = 0 THEN 'The tables are as they were installed.' END),
                  'triggers that make sessions read the definitions anew are not enabled: ' ||
                      string_agg(format('%s on %s', tgname, tgrelid::regclass), ', '))
        FROM pg_trigger WHERE tgrelid IN (to_regclass(home || '.idem_scopes'), to_regclass(home || '.idem_machines'))
                          AND tgname IN ('idem_definitions_changed', 'idem_definitions_truncated') AND tgenabled <> 'A';

    -- The server
    RETURN QUERY SELECT 'collation', coalesce(datcollversion = pg_database_collation_actual_version(oid), true),
        CASE WHEN datcollversion <> pg_database_collation_actual_version(oid)
             THEN format('The database was made with version %s of its collation, the system has %s: unique indexes on your text columns may '
                         'let duplicates pass. Keys of idem compare bytewise, and are not concerned.',
                         datcollversion, pg_database_collation_actual_version(oid))
             ELSE 'The collation is of the version that the database was made with.' END
        FROM pg_database WHERE datname = current_database();
    RETURN QUERY
        WITH ours AS (
            SELECT stored.oid, age(stored.relfrozenxid) AS xids, mxid_age(stored.relminmxid) AS multixacts
              FROM pg_class c JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
              JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'idem'
              JOIN pg_class stored ON stored.oid IN (c.oid, c.reltoastrelid)
             WHERE c.relkind = 'r'),
        worst AS (SELECT max(xids) AS xids, max(multixacts) AS multixacts FROM ours)
        SELECT 'wraparound', xids <= 1.25 * current_setting('autovacuum_freeze_max_age')::int
                             AND multixacts <= 1.25 * current_setting('autovacuum_multixact_freeze_max_age')::int,
            format('The oldest row of idem''s tables is %s transactions old, the oldest row lock %s multixacts; autovacuum acts at %s and %s.',
                   xids, multixacts, current_setting('autovacuum_freeze_max_age'), current_setting('autovacuum_multixact_freeze_max_age'))
          FROM worst;
    RETURN QUERY SELECT 'prepared_transactions', coalesce(min(prepared) > clock_timestamp() - interval '1 hour', true),
        format('%s transactions are prepared%s, and go on holding the keys that they claimed.', count(*),
               coalesce(', the first since ' || min(prepared), ''))
        FROM pg_prepared_xacts WHERE database = current_database();

    -- The tables of others
    RETURN QUERY SELECT 'guards', count(*) = 0,
        CASE WHEN count(*) = 0 THEN 'No guard of a version or a state is disabled.'
             ELSE format('%s disabled guards let changes pass unchecked: %s', count(*),
                         string_agg(format('%I on %s', tgname, tgrelid::regclass), ', ' ORDER BY tgrelid, tgname)
                             FILTER (WHERE place <= 5)) || CASE WHEN count(*) > 5 THEN ', ...' ELSE '' END END
        FROM (SELECT t.tgname, t.tgrelid, row_number() OVER (ORDER BY t.tgrelid, t.tgname) AS place
                FROM pg_depend d JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND d.objid = t.oid
               WHERE d.refclassid = 'pg_proc'::regclass AND t.tgenabled IN ('D', 'R')
                 AND d.refobjid IN (to_regproc(home || '.idem_state_guard'), to_regproc(home || '.idem_version_guard'))) disabled;

    -- What is in the tables, if they are those
    IF library.trouble IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('SELECT count(*) FROM %s.idem_stats_counters() WHERE is_other', home) INTO shared;
    RETURN QUERY SELECT 'statistics', shared = 0,
        CASE WHEN shared = 0 THEN 'Every scope has counters of its own.'
             ELSE 'There are more scopes than idem.stats_max_scopes; some are counted together.' END;
    RETURN QUERY SELECT 'dead_rows', coalesce(bool_and(dead <= 10000 + 0.2 * live), true),
        string_agg(format('%s: %s dead of %s rows', relation, dead, live + dead), ', ')
        FROM (SELECT relation, pg_stat_get_live_tuples(relation) AS live, pg_stat_get_dead_tuples(relation) AS dead
                FROM unnest(ARRAY['idem_keys', 'idem_tokens', 'idem_locks', 'idem_rates', 'idem_counters']) AS name, to_regclass(home || '.' || name) AS relation) counts;
    EXECUTE format('WITH RECURSIVE firsts AS ((SELECT topic, id FROM %1$s.idem_outbox ORDER BY topic, id LIMIT 1) UNION ALL '
                   'SELECT n.topic, n.id FROM firsts f, LATERAL (SELECT topic, id FROM %1$s.idem_outbox o WHERE o.topic > f.topic '
                   'ORDER BY o.topic, o.id LIMIT 1) n) '
                   'SELECT f.topic, (%1$s.idem_id_parts(f.id)).at FROM firsts f ORDER BY f.id LIMIT 1', home) INTO topic, since;
    RETURN QUERY SELECT 'outbox', coalesce(since > clock_timestamp() - interval '1 hour', true),
        CASE WHEN since IS NULL THEN 'All messages were acknowledged.'
             ELSE format('The oldest message that was not acknowledged was published at %s (topic %s).', since, topic) END;
    EXECUTE format('SELECT count(*) FROM (SELECT FROM %s.idem_outbox_parked LIMIT 10001) p', home) INTO shared;
    RETURN QUERY SELECT 'dead_letters', shared = 0,
        format('%s%s dead letters wait for idem_outbox_retry or idem_outbox_discard.', CASE WHEN shared > 10000 THEN 'More than ' END, least(shared, 10000));
    FOREACH space IN ARRAY ARRAY['idem_keys', 'idem_tokens', 'idem_locks', 'idem_rates'] LOOP
        EXECUTE format('SELECT * FROM %s.idem_health_sample($1, $2)', home) INTO sample USING space, interval '500 ms';
        factor := sample.pages::float8 / greatest(sample.pages_read, 1);
        RETURN QUERY SELECT 'sweep_lag_of_' || space,
            sample.expired * factor <= greatest(most_expired, 0.2 * sample.live_rows * factor),
            format('%s of %s rows have expired and were not swept', round(sample.expired * factor), round(sample.live_rows * factor)) ||
            coalesce(', the first at ' || sample.oldest_expiry, '') ||
            CASE WHEN factor > 1 THEN format(' (estimated from %s of %s pages)', sample.pages_read, sample.pages) ELSE '' END;
        CONTINUE WHEN space <> 'idem_keys';
        RETURN QUERY SELECT 'leases', coalesce(sample.oldest_lapse > clock_timestamp() - interval '1 hour', true),
            format('%s leases are live%s; %s have run out and were not taken over%s', sample.leases,
                   coalesce(', the oldest claimed at ' || sample.oldest_lease, ''), sample.lapsed,
                   coalesce(', the first at ' || sample.oldest_lapse, '')) ||
            CASE WHEN factor > 1 THEN format(' (in %s of %s pages)', sample.pages_read, sample.pages) ELSE '' END;
        RETURN QUERY SELECT 'in_doubt', sample.in_doubt = 0,
            format('%s keys are in doubt, and wait for idem_resolve or idem_forget', sample.in_doubt) ||
            CASE WHEN factor > 1 THEN format(' (in %s of %s pages)', sample.pages_read, sample.pages) ELSE '' END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION idem_health() IS
'What an operator would want to know: one row per check, ok or not, with the figures it rests on. docs/monitoring.md says what each means and what to do. Reads each table of keys for half a second at most; beyond what can be read in that time, figures are estimates. Counts all scopes and names no key. Operators.';

CREATE OR REPLACE FUNCTION idem_functions(operator boolean)
RETURNS SETOF regprocedure LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.oid::regprocedure
    FROM pg_depend d
    JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
    JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
    WHERE e.extname = 'idem'
      -- Guards are put on the callers' own tables.
      AND (p.prorettype <> 'trigger'::regtype OR p.proname LIKE 'idem\_%\_guard')
      AND p.proname NOT IN ('idem_functions', 'idem_grant', 'idem_revoke', 'idem_health_library', 'idem_health_sample')
      AND NOT has_function_privilege('public', p.oid, 'EXECUTE')
      AND (p.proname IN ('idem_forget', 'idem_resolve', 'idem_scope_set', 'idem_scope_drop', 'idem_machine_define',
                         'idem_machine_drop', 'idem_token_rotate_secret', 'idem_api_key_set', 'idem_api_key_drop',
                         'idem_http_scope_set', 'idem_outbox_retry', 'idem_outbox_discard', 'idem_outbox_dead_letters',
                         'idem_sweep', 'idem_sweep_status', 'idem_stats_reset', 'idem_in_flight', 'idem_health')) = operator
$$;
COMMENT ON FUNCTION idem_functions(boolean) IS
'The functions of one of the two sets that idem_grant hands out: false, those for applications; true, those that operators get besides.';

CREATE OR REPLACE FUNCTION idem_grant(role regrole, operator boolean DEFAULT false)
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
        EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %s', function, role);
    END LOOP;
END
$$;
COMMENT ON FUNCTION idem_grant(regrole, boolean) IS
'Lets a role use idem: the functions for applications, and with operator => true also those for operators. Grants USAGE on the extension''s schema where it is missing. To be called by the extension''s owner or a superuser.';

CREATE OR REPLACE FUNCTION idem_revoke(role regrole)
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
        EXECUTE format('REVOKE EXECUTE ON ROUTINE %s FROM %s', function, role);
    END LOOP;
END
$$;
COMMENT ON FUNCTION idem_revoke(regrole) IS 'Takes back what idem_grant gave, except USAGE on the schema. To be called by the extension''s owner or a superuser.';

-- What is new is for those who hold the rest of its set, as idem_grant gave it to them. Only the new functions are touched: GRANT and
-- REVOKE in an extension's script go into pg_init_privs, and pg_dump leaves out what stands there, as CREATE EXTENSION will make it
-- again. So what applications and operators are given here must not stay there.
DO $$
DECLARE
    home  CONSTANT regnamespace := (SELECT extnamespace FROM pg_catalog.pg_extension WHERE extname = 'idem');
    added CONSTANT text[] := '{idem_consume,idem_verify_request,idem_api_key_set,idem_api_key_drop,idem_allow,'
                             'idem_http_begin,idem_http_complete,idem_http_scope_set,'
                             'idem_publish,idem_outbox_take,idem_outbox_ack,idem_outbox_nack,'
                             'idem_outbox_retry,idem_outbox_discard,idem_outbox_dead_letters,'
                             'idem_sweep,idem_sweep_status,idem_stats_counters,idem_stats_reset,idem_in_flight,idem_health,'
                             'idem_health_library,idem_health_sample}';
    function     regprocedure;
    holder       regrole;
    as_installed aclitem[];
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    FOR function IN
        SELECT p.oid FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
        JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
        WHERE e.extname = 'idem' AND p.proname = ANY (added)
    LOOP
        EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', function);
    END LOOP;
    FOR function, holder IN EXECUTE format($query$
        WITH members AS (
            SELECT p.oid, p.proacl, p.proowner, s.operator, p.proname = ANY ($1) AS is_new
              FROM (VALUES (false), (true)) s (operator), %s.idem_functions(s.operator) f JOIN pg_proc p ON p.oid = f),
        holders AS (
            SELECT m.operator, a.grantee
              FROM members m, aclexplode(m.proacl) a
             WHERE NOT m.is_new AND a.privilege_type = 'EXECUTE' AND a.grantee NOT IN (0, m.proowner)
             GROUP BY m.operator, a.grantee
            HAVING count(DISTINCT m.oid) = (SELECT count(*) FROM members o WHERE o.operator = m.operator AND NOT o.is_new))
        SELECT m.oid, h.grantee FROM members m JOIN holders h USING (operator) WHERE m.is_new
        $query$, home) USING added
    LOOP
        SELECT initprivs INTO STRICT as_installed FROM pg_init_privs
         WHERE objoid = function AND classoid = 'pg_proc'::regclass AND objsubid = 0;
        EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %s', function, holder);
        UPDATE pg_init_privs SET initprivs = as_installed
         WHERE objoid = function AND classoid = 'pg_proc'::regclass AND objsubid = 0;
    END LOOP;
END
$$;
