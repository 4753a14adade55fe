-- Idempotency keys.

CREATE FUNCTION idem_claim(key text, ttl interval DEFAULT NULL, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_claim(text, interval, text) IS
'Claims a key for this transaction. True: the key is new; do the work, and the commit completes the key. False: the work of this key has committed, or this transaction has claimed it before. Waits for an uncommitted holder.
ttl: how long the key stays unique (default: the scope''s, else idem.default_ttl). NULL for ttl or scope means that it is not given.
Under autocommit the call means at most once: the key is done when the statement is, whether or not the work follows.
Errors: 22004 key is null; 22023 key empty or over 1024 bytes, scope over 255 bytes, ttl not positive; 25006 a new key in a read-only transaction; 40001 under REPEATABLE READ and SERIALIZABLE, when the answer rests on a row that the snapshot cannot see; 42501 scope of another owner; ID005 the key is leased or in doubt; and those of any lock wait (40P01, 55P03, 57014).';

CREATE FUNCTION idem_must_claim(key text, ttl interval DEFAULT NULL, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_must_claim(text, interval, text) IS
'As idem_claim, but a duplicate is an error: for a batch of statements that cannot branch, which the error rolls back. Always returns true. Errors: as idem_claim; ID006 the work of this key has committed, or this transaction has claimed it before.';

CREATE FUNCTION idem_try_claim(key text, ttl interval DEFAULT NULL, scope text DEFAULT '')
RETURNS idem_outcome LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_try_claim(text, interval, text) IS
'As idem_claim, but never waits: returns in_flight while another transaction holds the key uncommitted, or while its lease is live. idem_lookup does not show an uncommitted holder yet: call again, or call idem_claim, which waits. Errors: as idem_claim, without ID005 and those of waiting.';

CREATE FUNCTION idem_claim_many(keys text[], ttl interval DEFAULT NULL, scope text DEFAULT '')
RETURNS SETOF text LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_claim_many(text[], interval, text) IS
'Claims many keys for this transaction, and returns those that are new, each once, in the order of the array. Waits for uncommitted holders; two calls cannot deadlock on each other. Errors: as idem_claim.';

CREATE FUNCTION idem_begin(key text, fingerprint bytea DEFAULT NULL, ttl interval DEFAULT NULL, lease interval DEFAULT NULL,
                           owner text DEFAULT NULL, wait interval DEFAULT '0', scope text DEFAULT '')
RETURNS idem_ticket LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_begin(text, bytea, interval, interval, text, interval, text) IS
'Claims a key, and returns a ticket: the outcome and, for a duplicate, the stored response. Without lease: for this transaction, as idem_claim. With lease: commit, do the work outside, then call idem_complete or idem_release with the fence.
fingerprint: the request''s, to detect a key that is used for another request. owner: a nonce of the caller''s; the same owner gets its unfinished claim back. wait: how long to wait for another holder (default: not at all). idem_lookup does not show an uncommitted holder yet: call again, or wait.
Call it as SELECT * FROM idem_begin(...); (idem_begin(...)).* would claim once per column. Errors: as idem_claim, without ID005; 25P01 without a lease and alone in its transaction; 22023 also for a negative wait, a lease that is not positive, a fingerprint that is empty or over 255 bytes.';

CREATE FUNCTION idem_step(key text, fence bigint, step text, output jsonb DEFAULT NULL, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_step(text, bigint, text, jsonb, text) IS
'Records a step of a leased key''s work, so that a later attempt does not repeat it. Without output, the step is intended: the holder is about to take it. With output, the step is done, and keeps this output. Later tickets and idem_lookup show all steps. True: this call changed the step; false: it was recorded before.
step: 1 to 1024 bytes. Errors: ID001 stale fence, or the step is done with another output; 22004 key, fence or step is null; 22023 step empty or too long, or output is the JSON value null; 54000 the steps would be over the scope''s max_response_size: nothing is recorded.';

CREATE FUNCTION idem_renew(key text, fence bigint, lease interval DEFAULT NULL, scope text DEFAULT '')
RETURNS timestamptz LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_renew(text, bigint, interval, text) IS
'Starts the lease again, from now, and returns its new end. lease: its length (default: the scope''s lease, else idem.default_lease). Errors: ID001 stale fence; 22004 fence is null; 22023 lease not positive.';

CREATE FUNCTION idem_complete(key text, response jsonb DEFAULT NULL, status_code integer DEFAULT NULL, fence bigint DEFAULT NULL,
                              scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_complete(text, jsonb, integer, bigint, text) IS
'Completes a leased key with its response, or (without fence) attaches a response to this transaction''s own claim. The retention starts again. A second, equal completion is a no-op. Returns true; false: the key is completed, but the response was over the limit and is not stored, with a warning.
Errors: ID001 stale fence, the key is completed with another response or status_code, or without a fence the key is not this transaction''s claim (is autocommit on?).';

CREATE FUNCTION idem_release(key text, fence bigint DEFAULT NULL, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_release(text, bigint, text) IS
'Gives a leased key back without a result; the next claim gets it at once, as another attempt. Without a fence, gives this transaction''s own claim without a lease back, as for an item of a batch whose work failed under a savepoint: the key is as before the claim. It is expired or absent, or released with its steps, or its lease is over. Always returns true.
Errors: ID001 stale fence, or without a fence the key is no open claim of this transaction: it is leased, completed by a call such as idem_complete or idem_execute, or of another transaction (is autocommit on?).';

CREATE FUNCTION idem_lookup(key text, scope text DEFAULT '')
RETURNS SETOF idem_key_info LANGUAGE c VOLATILE PARALLEL SAFE ROWS 1 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_lookup(text, text) IS
'Returns the live key as this snapshot sees it, this transaction''s own claims included. No row: there is no live committed key. A holder that has not committed has no row yet, so no row does not mean that the key is free. Writes nothing, never waits; works on a hot standby.';

CREATE FUNCTION idem_is_owner(key text, owner text, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_is_owner(text, text, text) IS
'Returns whether the live key was claimed with this owner, as this snapshot sees it: for use after a COMMIT whose reply was lost. False also when there is no live committed key, or it has no owner. Writes nothing, never waits; works on a hot standby. Error: 22004 key or owner is null.';

CREATE FUNCTION idem_serialize(key text, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_serialize(text, text) IS
'Serializes transactions: until this one ends, other calls with the same key wait. Claims nothing. Always returns true. A 64-bit hash tells keys apart; after a collision, two transactions wait for each other''s end without need. Error: 25P01 alone in its transaction.';

CREATE FUNCTION idem_forget(key text, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_forget(text, text) IS
'Deletes a key, so that its work can be done again; true if the key was live. Waits for an uncommitted holder. Operators.';

CREATE FUNCTION idem_resolve(key text, resolution text, response jsonb DEFAULT NULL, status_code integer DEFAULT NULL,
                             scope text DEFAULT '')
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_resolve(text, text, jsonb, integer, text) IS
'Settles a key that is in doubt, or whose holder''s lease has run out: as completed (with a response) or as released. Draws a new fence, so that the old holder can no longer complete the key. Operators.
Errors: 22023 resolution is neither completed nor released; 55000 no such key, or it is completed or released; ID005 its lease is live.';

CREATE FUNCTION idem_redact(key text, scope text DEFAULT '')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_redact(text, text) IS
'Removes the response of a completed key, live or expired, and the outputs of its steps. The key stays, with its status code; replays say response_omitted. False: there is no such key, or it has neither response nor outputs. A key that is not completed keeps its steps, because a later attempt needs them. Waits for an uncommitted holder. The dead row version contains the response until vacuum removes it. Operators.
Errors: 22004 key is null; 22023 key empty or over 1024 bytes, scope over 255 bytes; 25006 there is a response to remove, in a read-only transaction; 40001 under REPEATABLE READ and SERIALIZABLE, when the key changed after the snapshot; 42501 scope of another owner; and those of any lock wait (40P01, 55P03, 57014).';
