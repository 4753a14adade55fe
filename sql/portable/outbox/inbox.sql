-- The inbox, which is keys. A backslash is written E'\\', which no setting reads otherwise.

-- idem_key(first, second), as keys of the inbox and the outbox are.
CREATE FUNCTION _idem_pair(first text, second text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT replace(replace(first, E'\\', E'\\\\'), ':', E'\\:') || ':' || replace(replace(second, E'\\', E'\\\\'), ':', E'\\:')
$$;

CREATE FUNCTION idem_consume LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    key text COLLATE "C";
BEGIN
    IF consumer IS NULL THEN
        PERFORM _idem_null('consumer');
    ELSIF consumer = '' THEN
        PERFORM _idem_invalid('consumer must not be empty');
    ELSIF message_id IS NULL THEN
        PERFORM _idem_null('message_id');
    ELSIF message_id = '' THEN
        PERFORM _idem_invalid('message_id must not be empty');
    END IF;
    key := _idem_pair(consumer, message_id);
    IF octet_length(key) > 1024 THEN
        PERFORM _idem_check_key(key, 'consumer with message_id');
    END IF;
    RETURN _idem_claim_outcome('idem_consume()', key, ttl, coalesce(scope, 'inbox'), true) IN ('acquired', 'taken_over');
END
$$;
