SELECT * FROM idem_claim_many(:keys);
