SELECT count(*) FROM key_batches, idem_claim_many(keys, scope => 'f');
