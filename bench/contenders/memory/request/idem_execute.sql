PERFORM FROM idem_execute('executed ' || n, 'SELECT $1::bigint AS id', ARRAY[n::text]);
