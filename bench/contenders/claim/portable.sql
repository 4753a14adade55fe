SELECT portable.idem_claim(:key);
