UPDATE work SET steps = coalesce(steps, '{}') || '{"charge": {"charge": "ch_4711", "amount": 2500}}' WHERE key = :id::text AND fence = 1;
