package idem.postgres;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Arrays;
import java.util.Objects;
import javax.sql.DataSource;

/**
 * The portable edition of idem, which the jar carries: docs/portable.md. The role of the {@link DataSource} owns what is made; it needs CREATE on the database.
 */
public final class IdemSchema {
    /** The first line of the script has it. */
    private static final String PACKAGED = script().split(" ", 4)[2].replace(",", "");

    /**
     * From the catalog alone: a role that made the schema first may have put a function idem_version there, and a call would run its code. trusted: the
     * extension's, or its schema and the function are the current role's.
     */
    private static final String LOOKUP = "SELECT CASE WHEN own.version IS NULL THEN 'c' ELSE 'portable' END AS edition,"
        + " coalesce(own.version, e.extversion) AS version,"
        + " e.oid IS NOT NULL OR p.proowner OPERATOR(pg_catalog.=) n.nspowner"
        + " AND pg_catalog.pg_get_userbyid(n.nspowner) OPERATOR(pg_catalog.=) CURRENT_USER AS trusted"
        + " FROM pg_catalog.pg_proc p"
        + " JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace"
        + " CROSS JOIN LATERAL pg_catalog.substring(p.prosrc, '^ SELECT ''portable'', ''([0-9]+([.][0-9]+)*)'',') AS own (version)"
        + " LEFT JOIN (pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON d.refobjid OPERATOR(pg_catalog.=) e.oid"
        + " AND d.refclassid OPERATOR(pg_catalog.=) e.tableoid AND d.deptype OPERATOR(pg_catalog.=) 'e'"
        + " AND e.extname OPERATOR(pg_catalog.=) 'idem'::pg_catalog.name)"
        + " ON d.classid OPERATOR(pg_catalog.=) p.tableoid AND d.objid OPERATOR(pg_catalog.=) p.oid"
        + " WHERE n.nspname OPERATOR(pg_catalog.=) ?::pg_catalog.name AND p.proname OPERATOR(pg_catalog.=) 'idem_version'::pg_catalog.name"
        + " AND p.pronargs OPERATOR(pg_catalog.=) 0::pg_catalog.int2 AND (own.version IS NOT NULL OR e.oid IS NOT NULL)";

    private final String schema;
    private final String edition;
    private final String version;
    private final boolean trusted;

    private IdemSchema(String schema, String edition, String version, boolean trusted) {
        this.schema = schema;
        this.edition = edition;
        this.version = version;
        this.trusted = trusted;
    }

    /** c: the extension; portable; null: idem is not installed. */
    public String edition() {
        return edition;
    }

    /** Of what is installed; null: nothing. */
    public String version() {
        return version;
    }

    /** What the schema lacks for this jar: install, upgrade, or null. */
    public String needs() {
        return version == null ? "install" : order(version, PACKAGED) < 0 ? "upgrade" : null;
    }

    /** As {@link #install(DataSource, String)}, in the schema idem. */
    public static IdemSchema install(DataSource database) throws SQLException {
        return install(database, "idem");
    }

    /**
     * Installs the portable edition, or brings an older installation up to this version, in one transaction. Several that start at once queue. Where the schema
     * has the extension, nothing is done.
     *
     * @throws IllegalStateException the installation is newer than this jar
     * @throws SQLException 42501 if another role owns the schema: none of its code runs
     */
    public static IdemSchema install(DataSource database, String schema) throws SQLException {
        IdemSchema before = status(database, schema);
        // In another role's schema, the script raises the error.
        if (before.trusted && "c".equals(before.edition)) return before;
        if (before.trusted && order(before.version, PACKAGED) > 0)
            throw new IllegalStateException("schema \"" + schema + "\" has idem " + before.version + ", which is newer than this jar (" + PACKAGED + ")");
        run(database, script("idem--portable.sql"), schema);
        return status(database, schema);
    }

    /** Drops the portable edition with all keys. The server refuses while guards are attached to tables. */
    public static void uninstall(DataSource database, String schema) throws SQLException {
        run(database, script("idem--portable-uninstall.sql"), schema);
    }

    /** What is installed, as the catalog has it: no function of the schema is called. */
    public static IdemSchema status(DataSource database, String schema) throws SQLException {
        Objects.requireNonNull(schema, "schema");
        try (Connection connection = database.getConnection()) {
            return Sql.list(connection, LOOKUP, row -> new IdemSchema(schema, row.getString(1), row.getString(2), row.getBoolean(3)), schema).stream()
                .findFirst().orElseGet(() -> new IdemSchema(schema, null, null, false));
        }
    }

    /**
     * For the start of an application.
     *
     * @throws IllegalStateException idem is missing, or older than this jar; the message says what to call
     */
    public static void verify(DataSource database, String schema) throws SQLException {
        IdemSchema found = status(database, schema);
        if ("install".equals(found.needs()))
            throw new IllegalStateException("idem is not installed in schema \"" + schema + "\"; call IdemSchema.install");
        if (found.needs() == null) return;
        String how = "c".equals(found.edition) ? "install the newer extension, and run: ALTER EXTENSION idem UPDATE" : "call IdemSchema.install";
        throw new IllegalStateException("schema \"" + schema + "\" has idem " + found.version + ", which is older than this jar (" + PACKAGED + "); " + how);
    }

    /** The script that {@link #install(DataSource)} runs, one statement, for a migration tool. The setting idem_portable.schema names another schema than idem. */
    public static String script() {
        return script("idem--portable.sql");
    }

    private static String script(String file) {
        try (InputStream stream = IdemSchema.class.getResourceAsStream("sql/" + file)) {
            return new String(Objects.requireNonNull(stream, file).readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void run(DataSource database, String text, String schema) throws SQLException {
        try (Connection connection = database.getConnection()) {
            boolean commits = connection.getAutoCommit();
            connection.setAutoCommit(false);
            try (Statement statement = connection.createStatement()) {
                Sql.one(connection, "SELECT pg_catalog.set_config('idem_portable.schema', ?, true)", row -> null, schema);
                statement.setEscapeProcessing(false);
                statement.execute(text);
                connection.commit();
            } catch (SQLException error) {
                connection.rollback();
                throw IdemException.of(error);
            } finally {
                connection.setAutoCommit(commits);
            }
        }
    }

    private static int order(String left, String right) {
        return Arrays.compare(parts(left), parts(right));
    }

    private static int[] parts(String version) {
        return Arrays.stream(version.split("\\.")).mapToInt(Integer::parseInt).toArray();
    }
}
