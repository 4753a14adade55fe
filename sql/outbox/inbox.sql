-- The inbox: one effect per consumer and message.

CREATE FUNCTION idem_consume(consumer text, message_id text, ttl interval DEFAULT NULL, scope text DEFAULT 'inbox')
RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_consume(text, text, interval, text) IS
'True: this message is new to this consumer; have its effect in this transaction. False: its effect has committed before. Either way it may be acknowledged, once this transaction has committed. A rollback makes the message new again. Waits for a transaction that has the same message in hand.
It is the claim of the key idem_key(consumer, message_id) in the scope, whose policy and owner apply (NULL: ''inbox''); ttl: how long the message is remembered, longer than the broker may redeliver it.
Errors: 22004 consumer or message_id is null; 22023 one is empty, or both together have over 1024 bytes; the others as idem_claim.';
