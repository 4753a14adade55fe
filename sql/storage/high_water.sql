-- High-water marks of fences and ids.

CREATE SEQUENCE idem_fence_high_water;
COMMENT ON SEQUENCE idem_fence_high_water IS
'How far fencing tokens have been issued and reserved. Only the sequence''s page is used: nextval is never called on it, because a sequence issues values twice after a crash.';

CREATE SEQUENCE idem_id_high_water;
COMMENT ON SEQUENCE idem_id_high_water IS
'How far the numbers of idem_next_id have been issued and reserved. Kept as idem_fence_high_water is: nextval is never called on it.';

SELECT pg_catalog.pg_extension_config_dump('idem_fence_high_water', '');
SELECT pg_catalog.pg_extension_config_dump('idem_id_high_water', '');
