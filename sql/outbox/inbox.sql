-- The inbox: one effect per consumer and message.

CREATE FUNCTION idem_consume(consumer text, message_id text, ttl interval DEFAULT NULL, scope text DEFAULT 'inbox')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_consume(text, text, interval, text) IS
'Claims a message for a consumer, in this transaction; true if the message is new to this consumer. True: process the message in this transaction. False: it was processed before, and that has committed. In both cases it may be acknowledged to the broker, once this transaction has committed. A rollback makes the message new again. Waits for a transaction that is processing the same message.
Claims the key idem_key(consumer, message_id) in the scope, whose policy and owner apply (NULL: ''inbox''). ttl: how long the message is remembered; longer than the broker may redeliver it.
Errors: 22004 consumer or message_id is null; 22023 one is empty, or both together are over 1024 bytes; the others as idem_claim.';
