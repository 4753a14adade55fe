SELECT idem_lock(:name, '30 s', wait => '30 s');
SELECT idem_unlock(:name, :fence);
