SELECT allowed FROM idem_allow('client ' || :name, 1e9, 2000000000);
