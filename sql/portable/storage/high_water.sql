-- Fences and ids follow the clock and the rows (keys/tables.sql, ids/ids.sql).
OMIT idem_fence_high_water;
OMIT idem_id_high_water;
