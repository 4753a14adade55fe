CALL idem_sweep(1000, '2 ms');
