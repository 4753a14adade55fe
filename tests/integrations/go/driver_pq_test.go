package idem_test

import _ "github.com/lib/pq"
