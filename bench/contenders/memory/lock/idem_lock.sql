PERFORM idem_unlock('lock ' || n % 10000, idem_lock('lock ' || n % 10000, '30 s'));
