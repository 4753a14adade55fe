-- A function of one's own, as teams keep one.
SELECT claim_once(:key);
