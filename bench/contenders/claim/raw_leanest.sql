INSERT INTO leanest_keys (key) VALUES (:key) ON CONFLICT (key) DO NOTHING;
