SELECT idem_next_id();
