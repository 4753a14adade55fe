CALL idem_sweep();
