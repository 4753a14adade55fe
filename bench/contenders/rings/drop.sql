-- A scope leaves its ring first, and a ring with live keys cannot be dropped. `scope` lives in `ring`.
SELECT idem_scope_reset(:'scope', 'ring');
SELECT format('TRUNCATE idem_ring_%s_%s', id, "window") FROM idem_rings JOIN idem_ring_registry USING (ring) WHERE ring = :'ring' \gexec
SELECT idem_ring_drop(:'ring');
SELECT idem_scope_drop(:'scope');
