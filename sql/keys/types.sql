-- Types of results of the functions on keys.

CREATE TYPE idem_outcome AS ENUM ('acquired', 'taken_over', 'in_flight', 'completed', 'mismatch', 'in_doubt');
COMMENT ON TYPE idem_outcome IS
'Outcome of a claim. acquired, taken_over: the caller does the work; in_flight: another holder is doing it; completed: the work is done and committed; mismatch: the key belongs to a different request; in_doubt: the holder vanished, and an operator has to decide.';

CREATE TYPE idem_ticket AS (
    outcome          idem_outcome,
    fence            bigint,
    attempt          integer,
    lease_until      timestamptz,
    status_code      integer,
    response         jsonb,
    response_omitted boolean,
    steps            jsonb,
    retry_after_ms   integer
);
COMMENT ON TYPE idem_ticket IS 'The result of idem_begin and idem_execute. Call them as SELECT * FROM idem_begin(...).';
COMMENT ON COLUMN idem_ticket.outcome IS 'Outcome of the claim.';
COMMENT ON COLUMN idem_ticket.fence IS 'Fencing token of the holder, leased mode only: pass it to idem_complete and the other functions that take one. Greater than every earlier one in this database.';
COMMENT ON COLUMN idem_ticket.attempt IS 'Number of this attempt at the work, from 1.';
COMMENT ON COLUMN idem_ticket.lease_until IS 'When the holder''s lease ends; leased mode only.';
COMMENT ON COLUMN idem_ticket.status_code IS 'Status code stored with the response; outcome completed.';
COMMENT ON COLUMN idem_ticket.response IS 'The stored response; outcome completed (idem_execute: also acquired).';
COMMENT ON COLUMN idem_ticket.response_omitted IS 'True when the response was too large to be stored, or was removed: the work is done, but its response is not here.';
COMMENT ON COLUMN idem_ticket.steps IS 'The steps of the attempts so far (idem_step): {"step": its output, or null for one that was intended and may have happened}; outcomes acquired and taken_over. NULL: none.';
COMMENT ON COLUMN idem_ticket.retry_after_ms IS 'Milliseconds left of the holder''s lease, rounded up, at most 2147483647; outcome in_flight. NULL when the holder''s transaction has not ended, because its end is unknown.';

CREATE TYPE idem_key_info AS (
    state            text,
    status_code      integer,
    response         jsonb,
    response_omitted boolean,
    attempt          integer,
    steps            jsonb,
    created_at       timestamptz,
    expires_at       timestamptz,
    lease_until      timestamptz
);
COMMENT ON TYPE idem_key_info IS 'A key as idem_lookup returns it, without its fence and its owner, which are the holder''s credentials.';
COMMENT ON COLUMN idem_key_info.state IS 'in_progress, completed, released or in_doubt.';
COMMENT ON COLUMN idem_key_info.status_code IS 'Status code stored with the response.';
COMMENT ON COLUMN idem_key_info.response IS 'The stored response.';
COMMENT ON COLUMN idem_key_info.response_omitted IS 'True when the response was too large to be stored, or was removed.';
COMMENT ON COLUMN idem_key_info.attempt IS 'Number of this attempt at the work, from 1.';
COMMENT ON COLUMN idem_key_info.steps IS 'The steps of the attempts so far (idem_step): {"step": its output, or null for one that was intended}. NULL: none.';
COMMENT ON COLUMN idem_key_info.created_at IS 'When this attempt was claimed.';
COMMENT ON COLUMN idem_key_info.expires_at IS 'When the retention ends; infinity: never.';
COMMENT ON COLUMN idem_key_info.lease_until IS 'When the holder''s lease ends, or ended; leased mode only.';
