-- As if the retention of all keys in the oldest window had ended.
SELECT format('UPDATE idem_ring_%1$s SET until = now() WHERE number = (SELECT number FROM idem_ring_%1$s WHERE state = ''sealed'' ORDER BY generation LIMIT 1)',
              id)
FROM idem_ring_registry WHERE ring = 'full' \gexec
