// Package portable carries the portable edition of idem, and installs it: no superuser and no file on the server is needed.
package portable

import (
	"context"
	"database/sql"
	_ "embed" // the script
	"errors"
	"fmt"
	"strconv"
	"strings"

	"example.org/idem"
)

// Version of the edition that is carried.
const Version = "1.0.0"

//go:embed idem--portable.sql
var script string

//go:embed idem--portable-uninstall.sql
var uninstall string

// Script is the edition as one statement, for a migration tool. It installs it, or brings an older installation up to this version, in the schema that the
// setting idem.schema names (default: idem).
func Script() string { return script }

// State of an installation.
type State struct {
	Edition string // c, portable, or empty: none
	Version string
}

// From the catalog alone: a role that made the schema first may have put a function idem_version there, and a call would run its code. The last column:
// the function is the extension's, or its schema and it are the current role's.
const lookup = `SELECT CASE WHEN own.version IS NULL THEN 'c' ELSE 'portable' END AS edition, coalesce(own.version, e.extversion) AS version,
	e.oid IS NOT NULL OR p.proowner OPERATOR(pg_catalog.=) n.nspowner
		AND pg_catalog.pg_get_userbyid(n.nspowner) OPERATOR(pg_catalog.=) CURRENT_USER AS trusted
FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
CROSS JOIN LATERAL pg_catalog.substring(p.prosrc, '^ SELECT ''portable'', ''([0-9]+([.][0-9]+)*)'',') AS own (version)
LEFT JOIN (pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON d.refobjid OPERATOR(pg_catalog.=) e.oid
	AND d.refclassid OPERATOR(pg_catalog.=) e.tableoid AND d.deptype OPERATOR(pg_catalog.=) 'e'
	AND e.extname OPERATOR(pg_catalog.=) 'idem'::pg_catalog.name)
	ON d.classid OPERATOR(pg_catalog.=) p.tableoid AND d.objid OPERATOR(pg_catalog.=) p.oid
WHERE n.nspname OPERATOR(pg_catalog.=) $1::pg_catalog.name AND p.proname OPERATOR(pg_catalog.=) 'idem_version'::pg_catalog.name
	AND p.pronargs OPERATOR(pg_catalog.=) 0::pg_catalog.int2 AND (own.version IS NOT NULL OR e.oid IS NOT NULL)`

// Status returns what is installed in a schema.
func Status(ctx context.Context, db *sql.DB, schema string) (State, error) {
	s, _, err := status(ctx, db, schema)
	return s, err
}

func status(ctx context.Context, db *sql.DB, schema string) (s State, isTrusted bool, err error) {
	err = db.QueryRowContext(ctx, lookup, schema).Scan(&s.Edition, &s.Version, &isTrusted)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return s, isTrusted, err
}

// Install installs the edition in a schema, or upgrades it, in one transaction. Several processes that call it at once queue. Where the extension in C++ is
// installed it does nothing. The role that calls it owns what is made, and needs CREATE on the database. A schema of another role is refused, 42501, and none
// of its code runs.
func Install(ctx context.Context, db *sql.DB, schema string) error {
	before, isTrusted, err := status(ctx, db, schema)
	if err != nil || isTrusted && before.Edition == "c" {
		return err
	}
	if isTrusted && isNewer(before.Version) {
		return fmt.Errorf("idem: schema %q has idem %s, which is newer than this package (%s)", schema, before.Version, Version)
	}
	return run(ctx, db, schema, script)
}

// Uninstall drops the edition, with all keys. It refuses while guards are attached to tables.
func Uninstall(ctx context.Context, db *sql.DB, schema string) error {
	return run(ctx, db, schema, uninstall)
}

// Verify is for the start of an application: an error that is idem.ErrNotInstalled, if idem is missing or older than this package.
func Verify(ctx context.Context, db *sql.DB, schema string) error {
	found, err := Status(ctx, db, schema)
	if err != nil {
		return err
	}
	if found.Edition == "" || isOlder(found.Version) {
		return &notInstalled{schema, found.Version}
	}
	return nil
}

type notInstalled struct{ schema, version string }

func (e *notInstalled) Error() string {
	if e.version == "" {
		return fmt.Sprintf("idem: idem is not installed in schema %q; call portable.Install", e.schema)
	}
	return fmt.Sprintf("idem: schema %q has idem %s, which is older than this package (%s); call portable.Install, or ALTER EXTENSION idem UPDATE", e.schema, e.version, Version)
}

func (e *notInstalled) Is(target error) bool { return target == idem.ErrNotInstalled }

func run(ctx context.Context, db *sql.DB, schema, statement string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "SELECT pg_catalog.set_config('idem_portable.schema', $1::text, true)", schema); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, statement); err != nil {
		return err
	}
	return tx.Commit()
}

func isNewer(version string) bool { return compare(version, Version) > 0 }

func isOlder(version string) bool { return compare(version, Version) < 0 }

func compare(left, right string) int {
	a, b := strings.Split(left, "."), strings.Split(right, ".")
	for i := 0; i < len(a) && i < len(b); i++ {
		x, _ := strconv.Atoi(a[i])
		y, _ := strconv.Atoi(b[i])
		if x != y {
			return x - y
		}
	}
	return len(a) - len(b)
}
