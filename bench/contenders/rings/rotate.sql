-- As if the open window had been open for its whole period: the sweep seals it, opens the next one and fills the filter.
SET client_min_messages = warning;
SELECT format('UPDATE idem_ring_%s SET opened_at = opened_at - interval ''100 days'' WHERE state = ''open''', id)
FROM idem_ring_registry WHERE ring = 'full' \gexec
CALL idem_sweep();
