--- idem_try_claim.sql
SELECT idem_try_claim(:key);
