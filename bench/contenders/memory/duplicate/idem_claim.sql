PERFORM idem_claim('present ' || n % 1000);
