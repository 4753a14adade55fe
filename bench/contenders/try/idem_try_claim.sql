SELECT idem_try_claim(:key);
