package idem.postgres;

import static java.util.Map.entry;

import java.util.Map;

/** Titles of problems: the reason phrases of the IANA registry of HTTP status codes, as idem_http_begin has them. */
final class ReasonPhrase {
    private static final Map<Integer, String> PHRASES = Map.ofEntries(
        entry(400, "Bad Request"), entry(401, "Unauthorized"), entry(402, "Payment Required"), entry(403, "Forbidden"),
        entry(404, "Not Found"), entry(405, "Method Not Allowed"), entry(406, "Not Acceptable"),
        entry(407, "Proxy Authentication Required"), entry(408, "Request Timeout"), entry(409, "Conflict"), entry(410, "Gone"),
        entry(411, "Length Required"), entry(412, "Precondition Failed"), entry(413, "Content Too Large"),
        entry(414, "URI Too Long"), entry(415, "Unsupported Media Type"), entry(416, "Range Not Satisfiable"),
        entry(417, "Expectation Failed"), entry(421, "Misdirected Request"), entry(422, "Unprocessable Content"),
        entry(423, "Locked"), entry(424, "Failed Dependency"), entry(425, "Too Early"), entry(426, "Upgrade Required"),
        entry(428, "Precondition Required"), entry(429, "Too Many Requests"), entry(431, "Request Header Fields Too Large"),
        entry(451, "Unavailable For Legal Reasons"), entry(500, "Internal Server Error"), entry(501, "Not Implemented"),
        entry(502, "Bad Gateway"), entry(503, "Service Unavailable"), entry(504, "Gateway Timeout"),
        entry(505, "HTTP Version Not Supported"), entry(506, "Variant Also Negotiates"), entry(507, "Insufficient Storage"),
        entry(508, "Loop Detected"), entry(511, "Network Authentication Required"));

    private ReasonPhrase() {}

    /** An unregistered status has the phrase of its class. Null: the status is no error. */
    static String of(int status) {
        if (status < 400) return null;
        return PHRASES.getOrDefault(status, PHRASES.get(status < 500 ? 400 : 500));
    }
}
