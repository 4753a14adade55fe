package idem.postgres;

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * idem's SQL functions on a connection, in its transaction. Names and answers are those of the SQL functions, without
 * their prefix; the project's documentation describes each. A null for a {@link Duration} or another optional
 * argument means that it is not given. Durations are passed in milliseconds. jsonb is JSON text.
 *
 * <p>Under autocommit each call is a transaction. Every method throws {@link IdemException} for an error of idem's
 * own, and {@link SQLException} for any other. Not safe for use by several threads at a time, as its connection.
 */
public final class IdemFunctions {
    private final Connection connection;
    private final String schema; // quoted
    private final String scope;

    /** In the schema idem, and the scope ''. */
    public IdemFunctions(Connection connection) {
        this(connection, "idem", "");
    }

    public IdemFunctions(Connection connection, String schema, String scope) {
        this.connection = Objects.requireNonNull(connection);
        this.schema = Sql.quoted(schema);
        this.scope = Objects.requireNonNull(scope);
    }

    public Connection connection() {
        return connection;
    }

    // Keys: docs/keys.md

    /**
     * True: new, do the work in this transaction. Waits for an uncommitted holder; {@link IdemException.InFlight} for
     * a leased one.
     */
    public boolean claim(String key) throws SQLException {
        return claim(key, null);
    }

    public boolean claim(String key, Duration ttl) throws SQLException {
        return call("idem_claim(?, ?::interval, ?)", row -> row.getBoolean(1), key, ttl, scope);
    }

    /** As claim, but a duplicate raises {@link IdemException.Duplicate}. */
    public void mustClaim(String key, Duration ttl) throws SQLException {
        call("idem_must_claim(?, ?::interval, ?)", row -> null, key, ttl, scope);
    }

    /** As claim, but never waits. */
    public Outcome tryClaim(String key, Duration ttl) throws SQLException {
        return call("idem_try_claim(?, ?::interval, ?)", row -> Outcome.of(row.getString(1)), key, ttl, scope);
    }

    /** The keys that are new, each once, in their order. */
    public List<String> claimMany(Collection<String> keys, Duration ttl) throws SQLException {
        return Sql.list(connection, "SELECT * FROM " + schema + ".idem_claim_many(?, ?::interval, ?)", row -> row.getString(1),
            keys.toArray(new String[0]), ttl, scope);
    }

    public Ticket begin(Claim claim) throws SQLException {
        return begin(claim, claim.lease, claim.owner, claim.wait);
    }

    Ticket begin(Claim claim, Duration lease, String owner, Duration wait) throws SQLException {
        return Sql.one(connection, "SELECT t.*, " + Ticket.STEPS + " FROM " + schema + ".idem_begin(?, "
                + claim.fingerprint(schema) + ", ttl => ?::interval, lease => ?::interval, owner => ?,"
                + " wait => ?::interval, scope => ?) t", Ticket::new,
            claim.key, claim.fingerprintValue, claim.ttl, lease, owner, wait, scope);
    }

    /** Attaches a response, JSON text, to the claim of this transaction. False: it was too large to be stored. */
    public boolean complete(String key, String response, Integer statusCode) throws SQLException {
        return complete(key, response, statusCode, null);
    }

    /** Completes a leased key under its fence. {@link IdemException.StaleFence} if it has passed on. */
    public boolean complete(String key, String response, Integer statusCode, Long fence) throws SQLException {
        return call("idem_complete(?, ?::jsonb, ?, ?, ?)", row -> row.getBoolean(1), key, response, statusCode, fence, scope);
    }

    /** Notes a step as intended. True: this call changed it. */
    public boolean step(String key, long fence, String step) throws SQLException {
        return step(key, fence, step, null);
    }

    /** Notes a step as done, with its output. */
    public boolean step(String key, long fence, String step, String output) throws SQLException {
        return call("idem_step(?, ?, ?, ?::jsonb, ?)", row -> row.getBoolean(1), key, fence, step, output, scope);
    }

    /** Notes a step as done, and returns the output as it is shown from now on. */
    String storeStep(String key, long fence, String step, String output) throws SQLException {
        String sql = "SELECT o.output::text, " + schema + ".idem_step(?, ?, ?, o.output, ?) FROM (SELECT ?::jsonb) AS o (output)";
        return Json.restored(Sql.one(connection, sql, row -> row.getString(1), key, fence, step, scope, Json.stored(output)));
    }

    /** Whether the response of the key, which this owner has completed, was too large to be stored. Null: it has not. */
    Boolean omittedOf(String key, String owner) throws SQLException {
        List<Boolean> found = Sql.list(connection, "SELECT i.response_omitted FROM " + schema + ".idem_lookup(?, ?) i"
                + " WHERE i.state = 'completed' AND " + schema + ".idem_is_owner(?, ?, ?)",
            row -> row.getBoolean(1), key, scope, key, owner, scope);
        return found.isEmpty() ? null : found.get(0);
    }

    /** Release, which does not wait long for a transaction that is completing the key. */
    boolean releaseSoon(String key, long fence) throws SQLException {
        return Sql.one(connection, "SELECT pg_catalog.set_config('lock_timeout', '2s', true), " + schema + ".idem_release(?, ?, ?)",
            row -> true, key, fence, scope);
    }

    /** The new end of the lease, which lasts from now on. Null: as long as the scope says. */
    public Instant renew(String key, long fence, Duration lease) throws SQLException {
        return call("idem_renew(?, ?, ?::interval, ?) AS until", row -> Ticket.instant(row, "until"), key, fence, lease, scope);
    }

    /** Gives a leased key back undone. */
    public void release(String key, long fence) throws SQLException {
        call("idem_release(?, ?, ?)", row -> null, key, fence, scope);
    }

    /** Empty: no live committed key. That does not mean that the key is free: another transaction may hold it. */
    public Optional<KeyInfo> lookup(String key) throws SQLException {
        return Sql.list(connection, "SELECT t.*, " + Ticket.STEPS + " FROM " + schema + ".idem_lookup(?, ?) t",
            KeyInfo::new, key, scope).stream().findFirst();
    }

    public boolean isOwner(String key, String owner) throws SQLException {
        return call("idem_is_owner(?, ?, ?)", row -> row.getBoolean(1), key, owner, scope);
    }

    /**
     * Claims, runs one statement, and stores its rows. The arguments are passed as text and become the types of $1,
     * $2 … by it; for a parameter of type json or jsonb write {@code $1::text::jsonb}.
     */
    public Ticket execute(Claim claim, String statement, Object... arguments) throws SQLException {
        String[] texts = new String[arguments.length];
        for (int i = 0; i < texts.length; i++) texts[i] = arguments[i] == null ? null : arguments[i].toString();
        return Sql.one(connection, "SELECT t.*, " + Ticket.STEPS + " FROM " + schema + ".idem_execute(?, ?, pg_catalog.to_jsonb(?), "
                + claim.fingerprint(schema) + ", ?::interval, ?) t", Ticket::new,
            claim.key, statement, texts, claim.fingerprintValue, claim.ttl, scope);
    }

    /** Others that ask for the same key wait until this transaction ends. */
    public void serialize(String key) throws SQLException {
        call("idem_serialize(?, ?)", row -> null, key, scope);
    }

    /** Counts a hit; 1 is the first within the ttl. */
    public long hit(String key, Duration ttl) throws SQLException {
        return call("idem_hit(?, ?::interval, ?)", row -> row.getLong(1), key, ttl, scope);
    }

    // Requests: docs/requests.md, docs/webhooks.md

    /** Takes cost units from a bucket of burst units, which regains rate units a second. */
    public RateAnswer allow(String name, double rate, int burst, int cost) throws SQLException {
        return Sql.one(connection, "SELECT t.* FROM " + schema + ".idem_allow(?, ?, ?, ?, ?) t", RateAnswer::new,
            name, rate, burst, cost, scope);
    }

    /**
     * Verifies a signed request and accepts it once. In the scope nonce, unless this object has a scope.
     *
     * @param params JSON text
     */
    public SignatureOutcome verifyRequest(String params, String signature, String keyId, Instant signedAt, String nonce,
        Duration tolerance) throws SQLException {
        return call("idem_verify_request(?::jsonb, ?, ?, ?::timestamptz, ?, ?::interval, ?)", row -> SignatureOutcome.valueOf(upper(row)),
            params, signature, keyId, signedAt.toString(), nonce, tolerance, scope.isEmpty() ? null : scope);
    }

    /**
     * Verifies a webhook and accepts it once.
     *
     * @param headers {@code {"name": "value" or ["value", ...]}}, as JSON text
     * @param body as received
     */
    public WebhookAnswer webhookReceive(String source, String headers, byte[] body) throws SQLException {
        return Sql.one(connection, "SELECT t.outcome, t.message_id FROM " + schema + ".idem_webhook_receive(?, ?::jsonb, ?) t",
            row -> new WebhookAnswer(SignatureOutcome.valueOf(upper(row)), row.getString("message_id")), source, headers, body);
    }

    // Rows: docs/rows.md. The table is a name as in SQL; keys, rows and changes are {"column": value}, as JSON text.

    /** Changes a row if it still has the version. */
    public RowAnswer optimisticUpdate(String table, String key, long version, String changes) throws SQLException {
        return row("optimistic_update(?::regclass, ?::jsonb, ?, ?::jsonb)", RowAnswer::ofVersion, table, key, version, changes);
    }

    /** Changes a row if its columns have the expected values. */
    public RowAnswer conditionalUpdate(String table, String key, String expected, String changes) throws SQLException {
        return row("conditional_update(?::regclass, ?::jsonb, ?::jsonb, ?::jsonb)", RowAnswer::ofRow, table, key, expected, changes);
    }

    /** Adds to a number if the sum stays within the bounds. Null for minimum: 0; for maximum: none. */
    public RowAnswer conditionalAdjust(String table, String key, String column, BigDecimal delta, BigDecimal minimum, BigDecimal maximum)
        throws SQLException {
        return row("conditional_adjust(?::regclass, ?::jsonb, ?::name, ?, coalesce(?::numeric, 0), ?::numeric)", RowAnswer::ofValue,
            table, key, column, delta, minimum, maximum);
    }

    /** Locks a row until this transaction ends. Null for wait: without limit. */
    public RowAnswer pessimisticLock(String table, String key, Duration wait) throws SQLException {
        return row("pessimistic_lock(?::regclass, ?::jsonb, ?::interval)", RowAnswer::ofRow, table, key, wait);
    }

    /** Locks rows in an order in which callers cannot deadlock; one answer for each key. */
    public List<RowAnswer> pessimisticLockMany(String table, Collection<String> keys, Duration wait) throws SQLException {
        return Sql.list(connection, "SELECT t.* FROM " + schema + ".pessimistic_lock_many(?::regclass, ?::jsonb[], ?::interval) t",
            RowAnswer::ofRow, table, keys.toArray(new String[0]), wait);
    }

    /** Inserts a row unless there is one with the same columns. Null for columns: the primary key. */
    public RowAnswer uniqueInsert(String table, String row, Collection<String> columns) throws SQLException {
        return row("unique_insert(?::regclass, ?::jsonb, ?::name[])", RowAnswer::ofRow, table, row,
            columns == null ? null : columns.toArray(new String[0]));
    }

    /** As uniqueInsert, for a table that cannot have the unique index. */
    public RowAnswer guardedInsert(String table, String row, Collection<String> columns) throws SQLException {
        return row("guarded_insert(?::regclass, ?::jsonb, ?::name[])", RowAnswer::ofRow, table, row, columns.toArray(new String[0]));
    }

    private RowAnswer row(String function, Sql.Reader<RowAnswer> reader, Object... values) throws SQLException {
        return Sql.one(connection, "SELECT t.* FROM " + schema + "." + function + " t", reader, values);
    }

    // HTTP: docs/http.md

    public HttpAnswer httpBegin(KeyedRequest request, Duration lease, Duration wait, Duration ttl) throws SQLException {
        return Sql.one(connection, "SELECT t.action, t.status, t.body_bytes, t.fence, t.code, " + HttpAnswer.HEADERS
                + ", CASE WHEN t.code IS DISTINCT FROM 'unkeyed' THEN " + schema + ".idem_http_key(?, ?) END AS key FROM "
                + schema + ".idem_http_begin(?, ?, ?, ?, body_bytes => ?,"
                + " lease => ?::interval, wait => ?::interval, ttl => ?::interval, fingerprint => ?, content_type => ?) t",
            HttpAnswer::new, request.header, request.scope, request.scope, request.method, request.route, request.header,
            request.fingerprint() == null ? request.body : null, lease, wait, ttl, request.fingerprint(), request.contentType);
    }

    /** Null for fence: transactional mode. */
    public HttpStored httpComplete(KeyedRequest request, HttpReply reply, Long fence) throws SQLException {
        return httpComplete(request, reply, fence, false);
    }

    /** With omit only status and header fields are stored. */
    HttpStored httpComplete(KeyedRequest request, HttpReply reply, Long fence, boolean omit) throws SQLException {
        return call("idem_http_complete(?, ?, ?, " + HttpReply.HEADERS + ", body_bytes => ?, fence => ?"
                + (omit ? ", omit => true)" : ")"),
            row -> HttpStored.valueOf(upper(row)), request.scope, request.header, reply.status(), reply.headerNames(),
            reply.headerValues(), omit ? null : reply.body(), fence);
    }

    /** The key in a header field of this scope, for lookup, renew and release; null if it is malformed. */
    public String httpKey(String field) throws SQLException {
        return call("idem_http_key(?, ?)", row -> row.getString(1), field, scope);
    }

    // Locks: docs/locks.md

    /** The fence; empty: busy. */
    public OptionalLong lock(String name, Duration ttl, String owner, Duration wait) throws SQLException {
        return call("idem_lock(?, ?::interval, ?, ?::interval, ?)", IdemFunctions::optionalLong, name, ttl, owner, wait, scope);
    }

    /** False: no longer the caller's. */
    public boolean lockRenew(String name, long fence, Duration ttl) throws SQLException {
        return call("idem_lock_renew(?, ?, ?::interval, ?)", row -> row.getBoolean(1), name, fence, ttl, scope);
    }

    /** False: it was no longer the caller's. */
    public boolean unlock(String name, long fence) throws SQLException {
        return call("idem_unlock(?, ?, ?)", row -> row.getBoolean(1), name, fence, scope);
    }

    /** Keeps the lock until this transaction ends; {@link IdemException.StaleFence} if it has passed on. */
    public void assertFence(String name, long fence) throws SQLException {
        call("idem_assert_fence(?, ?, ?)", row -> null, name, fence, scope);
    }

    // Tokens: docs/tokens.md

    public String issueToken(String subject, Duration ttl) throws SQLException {
        return call("idem_token_issue(?, ?::interval, ?)", row -> row.getString(1), subject, ttl, scope);
    }

    public TokenOutcome redeemToken(String token, String subject) throws SQLException {
        return call("idem_token_redeem(?, ?, ?)", row -> TokenOutcome.valueOf(upper(row)), token, subject, scope);
    }

    // Messages: docs/outbox.md

    /** The message's id. */
    public long publish(String topic, String payload) throws SQLException {
        return publish(Message.of(topic, payload)).getAsLong();
    }

    /** The message's id, or with a dedupId that of the first message; empty if that one's id was removed. */
    public OptionalLong publish(Message message) throws SQLException {
        return call("idem_publish(?, ?::jsonb, ?, ?::jsonb, ?::interval, ?)", IdemFunctions::optionalLong,
            message.topic, message.payload, message.key, message.headers, message.delay, message.dedupId);
    }

    /** The ids of many messages of one topic, in the order of the JSON array: docs/outbox.md, idem_publish_many. */
    public List<Long> publishMany(String topic, String messages) throws SQLException {
        return call("idem_publish_many(?, ?::jsonb) AS ids", row -> {
            List<Long> ids = new ArrayList<>();
            for (Object id : Sql.array(row, "ids")) ids.add((Long) id);
            return ids;
        }, topic, messages);
    }

    /** The next messages of a topic, under a lease. Commit, then deliver them. */
    public List<TakenMessage> take(String topic, int maxMessages, Duration lease) throws SQLException {
        return Sql.list(connection, "SELECT * FROM " + schema + ".idem_outbox_take(?, ?, ?::interval)", TakenMessage::new,
            topic, maxMessages, lease);
    }

    /** Delivered. Returns how many messages of the lease that was. */
    public int ack(Collection<Long> ids, long fence) throws SQLException {
        return call("idem_outbox_ack(?, ?)", row -> row.getInt(1), ids.toArray(new Long[0]), fence);
    }

    /** Not delivered. Null: the rest doubles with each failure. */
    public int nack(Collection<Long> ids, long fence, Duration retryAfter) throws SQLException {
        return call("idem_outbox_nack(?, ?, ?::interval)", row -> row.getInt(1), ids.toArray(new Long[0]), fence, retryAfter);
    }

    /** More time for a batch. Returns how many messages it still holds. */
    public int outboxRenew(Collection<Long> ids, long fence, Duration lease) throws SQLException {
        return call("idem_outbox_renew(?, ?, ?::interval)", row -> row.getInt(1), ids.toArray(new Long[0]), fence, lease);
    }

    /**
     * True: new to this consumer, do the work in this transaction. In the scope inbox, unless this object has a
     * scope.
     */
    public boolean consume(String consumer, String messageId, Duration ttl) throws SQLException {
        return call("idem_consume(?, ?, ?::interval, ?)", row -> row.getBoolean(1),
            consumer, messageId, ttl, scope.isEmpty() ? null : scope);
    }

    // State machines and numbers: docs/machines.md, docs/ids.md

    /**
     * Moves one row.
     *
     * @param table a table's name, as in SQL
     * @param key {@code {"column": value}} of a primary or unique key, as JSON text
     * @param fromState null: any
     */
    public Transition transition(String table, String key, String fromState, String toState) throws SQLException {
        return Sql.one(connection, "SELECT outcome, state FROM " + schema + ".idem_transition(?::regclass, ?::jsonb, ?, ?)",
            row -> new Transition(Transition.Outcome.valueOf(upper(row)), row.getString("state")),
            table, key, fromState, toState);
    }

    public long nextId() throws SQLException {
        return call("idem_next_id()", row -> row.getLong(1));
    }

    private <T> T call(String function, Sql.Reader<T> reader, Object... values) throws SQLException {
        return Sql.one(connection, "SELECT " + schema + "." + function, reader, values);
    }

    private static OptionalLong optionalLong(ResultSet row) throws SQLException {
        long value = row.getLong(1);
        return row.wasNull() ? OptionalLong.empty() : OptionalLong.of(value);
    }

    private static String upper(ResultSet row) throws SQLException {
        return row.getString(1).toUpperCase(Locale.ROOT);
    }
}
