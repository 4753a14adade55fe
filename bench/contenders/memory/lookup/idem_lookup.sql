PERFORM FROM idem_lookup('present ' || n % 1000);
