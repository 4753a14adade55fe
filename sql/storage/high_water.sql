-- How far fences and ids have come.

CREATE SEQUENCE idem_fence_high_water;
COMMENT ON SEQUENCE idem_fence_high_water IS
'How far fencing tokens have come, and been reserved. Only the page is a sequence''s: nextval is never called on it, as a sequence issues values twice after a crash.';

CREATE SEQUENCE idem_id_high_water;
COMMENT ON SEQUENCE idem_id_high_water IS
'How far the numbers of idem_next_id have come, and been reserved: kept as idem_fence_high_water is. nextval is never called on it.';

SELECT pg_catalog.pg_extension_config_dump('idem_fence_high_water', '');
SELECT pg_catalog.pg_extension_config_dump('idem_id_high_water', '');
