SELECT * FROM idem_begin(:key);
