INSERT INTO hits_by_hand AS h (expires_at, hits, scope, key) VALUES (now() + interval '1 hour', 1, '', 'client ' || :name)
ON CONFLICT (scope, key) DO UPDATE SET hits = CASE WHEN h.expires_at > now() THEN h.hits + 1 ELSE 1 END,
    expires_at = CASE WHEN h.expires_at > now() THEN h.expires_at ELSE excluded.expires_at END
RETURNING hits;
