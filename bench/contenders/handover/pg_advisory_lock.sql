-- It has no lease and no fence, and ends with its session.
SELECT pg_advisory_lock(hashtextextended(:name, 0));
SELECT pg_advisory_unlock(hashtextextended(:name, 0));
