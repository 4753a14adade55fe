package idem.postgres;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** A response: status, header fields and the bytes of the body. */
public final class HttpReply {
    /** jsonb from two arrays: the names, and their values. */
    static final String HEADERS = "(SELECT pg_catalog.jsonb_object_agg(name, list)"
        + " FROM (SELECT name, pg_catalog.jsonb_agg(value ORDER BY number) AS list"
        + " FROM ROWS FROM (pg_catalog.unnest(?), pg_catalog.unnest(?)) WITH ORDINALITY AS field (name, value, number) GROUP BY name) fields)";

    private final int status;
    private final Map<String, List<String>> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    private final byte[] body;
    private HttpReply origin = this;
    private boolean thrown;
    private String code; // null: this is no error of idem's or of the middleware's

    /** Null for body: none. */
    public HttpReply(int status, Map<String, List<String>> headers, byte[] body) {
        this.status = status;
        headers.forEach((name, values) -> this.headers.put(name, List.copyOf(values)));
        this.body = body;
    }

    /** A problem document of RFC 9457, with a member "code". Null for code or detail: the document does not have it. */
    public static HttpReply problem(int status, String code, String detail, String... headerAndValue) {
        Map<String, List<String>> headers = new TreeMap<>();
        headers.put("Content-Type", List.of("application/problem+json"));
        for (int i = 0; i < headerAndValue.length; i += 2) headers.put(headerAndValue[i], List.of(headerAndValue[i + 1]));
        String json = "{\"type\": \"about:blank\"" + member("title", ReasonPhrase.of(status)) + ", \"status\": " + status
            + member("code", code) + member("detail", detail) + "}";
        return new HttpReply(status, headers, json.getBytes(StandardCharsets.UTF_8)).ofCode(code);
    }

    HttpReply ofCode(String code) {
        this.code = code;
        return this;
    }

    /** 500 for an error that is in the log. */
    public static HttpReply internalError() {
        return problem(500, "internal", "The log of the server has the reason.");
    }

    private static String member(String name, String value) {
        return value == null ? "" : ", \"" + name + "\": " + quoted(value);
    }

    private static String quoted(String text) {
        StringBuilder json = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') json.append('\\').append(c);
            else if (c < ' ') json.append(String.format("\\u%04x", (int) c));
            else json.append(c);
        }
        return json.append('"').toString();
    }

    public int status() {
        return status;
    }

    /** By name, whatever the case; in alphabetical order. */
    public Map<String, List<String>> headers() {
        return Collections.unmodifiableMap(headers);
    }

    /** Null: none. */
    public byte[] body() {
        return body;
    }

    /** With further header fields, as far as it does not have them. */
    HttpReply with(Map<String, List<String>> added) {
        Map<String, List<String>> all = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        all.putAll(headers);
        added.forEach(all::putIfAbsent);
        HttpReply reply = new HttpReply(status, all, body);
        reply.origin = origin;
        reply.thrown = thrown;
        return reply.ofCode(code);
    }

    /**
     * This reply as an HTTP error that the handler has thrown, whatever the framework made of it: it rolls back, unless
     * {@link HttpOptions#storeErrors} has its status.
     */
    public HttpReply thrown() {
        HttpReply reply = with(Map.of());
        reply.thrown = true;
        return reply;
    }

    boolean isThrown() {
        return thrown;
    }

    /** What kind of error of idem's or of the middleware's it is, such as in_flight; null: it is none. */
    public String code() {
        return code;
    }

    boolean isEncoded() {
        return headers.getOrDefault("Content-Encoding", List.of()).stream().anyMatch(value -> !value.equalsIgnoreCase("identity"));
    }

    /** Whether this is the handler's reply, perhaps with header fields that idem has added. */
    public boolean isOf(HttpReply made) {
        return origin == made;
    }

    String[] headerNames() {
        List<String> names = new ArrayList<>();
        headers.forEach((name, values) -> values.forEach(value -> names.add(name)));
        return names.toArray(new String[0]);
    }

    String[] headerValues() {
        return headers.values().stream().flatMap(List::stream).toArray(String[]::new);
    }

    @Override
    public String toString() {
        return Description.of(this, "status", status, "headers", headers.keySet(), "body", body);
    }
}
