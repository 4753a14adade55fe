--- schema.sql
-- The columns and the index of idem_counters.
CREATE TABLE hits_by_hand (
    expires_at timestamptz NOT NULL,
    hits bigint NOT NULL,
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, key)
) WITH (fillfactor = 70);

--- idem_hit.sql
SELECT idem_hit('client ' || :name, '1 hour');

--- on_conflict.sql
INSERT INTO hits_by_hand AS h (expires_at, hits, scope, key) VALUES (now() + interval '1 hour', 1, '', 'client ' || :name)
ON CONFLICT (scope, key) DO UPDATE SET hits = CASE WHEN h.expires_at > now() THEN h.hits + 1 ELSE 1 END,
    expires_at = CASE WHEN h.expires_at > now() THEN h.expires_at ELSE excluded.expires_at END
RETURNING hits;
