-- Gets its key as the redeemer gets its token.
SELECT idem_claim((SELECT key FROM prepared_tokens WHERE id = :id));
