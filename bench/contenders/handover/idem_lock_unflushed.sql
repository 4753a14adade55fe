-- The setting is the session's from the first statement on.
SELECT idem_lock(:name, '30 s', wait => '30 s'), set_config('synchronous_commit', 'off', false);
SELECT idem_unlock(:name, :fence);
