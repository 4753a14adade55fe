SELECT idem_lock(:id, '30 s') AS fence \gset
SELECT idem_unlock(:id, :fence);
