// Package idem makes work take effect once: the Idempotency-Key header for net/http, work that runs once for a key, leases with steps, locks with fencing
// tokens, inbox and outbox. The key, the rows and the result commit in one PostgreSQL transaction.
//
// It calls idem's SQL functions, of the extension or of the portable edition, which package portable installs. It has no dependencies: bring a driver of
// database/sql, such as lib/pq or pgx's stdlib. A handle is a *sql.DB, *sql.Tx or *sql.Conn; on a *sql.DB each call is a transaction of its own.
package idem
