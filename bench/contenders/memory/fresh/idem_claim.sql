PERFORM idem_claim('fresh ' || n);
