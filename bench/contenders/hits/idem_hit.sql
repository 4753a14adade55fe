SELECT idem_hit('client ' || :name, '1 hour');
