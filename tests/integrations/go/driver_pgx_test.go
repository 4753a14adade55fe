package idem_test

import _ "github.com/jackc/pgx/v4/stdlib"
