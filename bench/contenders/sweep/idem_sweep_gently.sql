CALL idem_sweep(200, '2 ms');
