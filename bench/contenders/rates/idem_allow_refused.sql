SELECT allowed FROM idem_allow('refused ' || :name, 1e-6, 1);
