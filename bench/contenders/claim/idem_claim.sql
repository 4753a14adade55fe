SELECT idem_claim(:key);
