package idem.postgres;

import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The answer of {@link IdemFunctions#httpBegin}. */
public final class HttpAnswer {
    public enum Action {
        /** Do the work. */
        RUN,
        /** The work is done: send the stored response. */
        REPLAY,
        /** Do nothing: send the error. */
        REJECT
    }

    /** The members of the column headers as {{name, value}, …}. */
    static final String HEADERS = "ARRAY(SELECT ARRAY[h.key, v] FROM pg_catalog.jsonb_each(t.headers) h,"
        + " pg_catalog.jsonb_array_elements_text(CASE pg_catalog.jsonb_typeof(h.value) WHEN 'array' THEN h.value"
        + " ELSE pg_catalog.jsonb_build_array(h.value) END) v) AS header_list";

    private final Action action;
    private final String key;
    private final Long fence;
    private final Map<String, List<String>> headers = new TreeMap<>();
    private final HttpReply reply;
    private final String code;

    HttpAnswer(ResultSet row) throws SQLException {
        action = Action.valueOf(row.getString("action").toUpperCase(java.util.Locale.ROOT));
        key = row.getString("key");
        fence = row.getObject("fence", Long.class);
        for (Object field : Sql.array(row, "header_list"))
            headers.computeIfAbsent(((String[]) field)[0], name -> new ArrayList<>()).add(((String[]) field)[1]);
        code = row.getString("code");
        reply = action == Action.RUN ? null
            : new HttpReply(row.getInt("status"), headers, row.getBytes("body_bytes")).ofCode(action == Action.REJECT ? code : null);
    }

    public Action action() {
        return action;
    }

    /** The key in the header field, as the other functions take it. Null: none, malformed, or not used with the method. */
    public String key() {
        return key;
    }

    /** The header fields of the response: of run, those to add to that of the handler. */
    public Map<String, List<String>> headers() {
        return headers;
    }

    /** What to send; null for run. */
    public HttpReply reply() {
        return reply;
    }

    /** Why it is rejected, such as in_flight; of run: unkeyed, or null. */
    public String code() {
        return code;
    }

    boolean isInFlight() {
        return action == Action.REJECT && "in_flight".equals(code);
    }

    boolean isDoubt() {
        return action == Action.REJECT && "in_doubt".equals(code);
    }

    /** Run in leased mode only; else null. */
    public Long fence() {
        return fence;
    }

    @Override
    public String toString() {
        return Description.of(this, "action", action, "key", key, "fence", fence, "reply", reply);
    }
}
