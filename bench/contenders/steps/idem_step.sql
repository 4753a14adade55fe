SELECT idem_step(:id::text, 1, 'charge', '{"charge": "ch_4711", "amount": 2500}');
