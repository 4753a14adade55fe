package idem.postgres.servlet;

import idem.postgres.HttpReply;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.Charset;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.servlet.ServletOutputStream;
import javax.servlet.WriteListener;
import javax.servlet.http.Cookie;
import javax.servlet.http.HttpServletResponse;
import javax.servlet.http.HttpServletResponseWrapper;

/** A response that is kept until the transaction has committed. The container's response is not touched. */
final class BufferedResponse extends HttpServletResponseWrapper {
    private static final Pattern CHARSET = Pattern.compile(";\\s*charset=\"?([^\";\\s]+)\"?", Pattern.CASE_INSENSITIVE);

    private final Map<String, List<String>> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    private final List<Cookie> cookies = new ArrayList<>();
    private String type; // Content-Type without charset
    private String charset; // null: nobody has set one
    private final Body body = new Body();
    private boolean streamUsed;
    private PrintWriter writer;
    private int status = SC_OK;
    private HttpReply error; // of sendError
    private HttpReply reply;
    private String refusal;
    private final int limit; // of the body, in bytes
    private UnaryOperator<HttpReply> onOverflow;
    private boolean overflown; // the body is over the limit
    private ServletOutputStream passing; // the rest of a body over the limit goes there; null: nothing does
    private long length = -1; // as the handler has set it

    BufferedResponse(HttpServletResponse response, int limit) {
        super(response);
        this.limit = limit;
    }

    /** As IdemContext.overflow. */
    void onOverflow(UnaryOperator<HttpReply> onOverflow) {
        this.onOverflow = onOverflow;
    }

    /** The client has got the head of the response, and its body as far as it was written. */
    boolean isPassing() {
        return passing != null;
    }

    static boolean isBodiless(int status) {
        return status < 200 || status == SC_NO_CONTENT || status == SC_NOT_MODIFIED;
    }

    /** The handler does what cannot be stored: the answer will be 500, whatever else it does. */
    IllegalStateException refuse(String why) {
        refusal = why;
        return new IllegalStateException(why);
    }

    /** Null: there is none. */
    String refusal() {
        return refusal;
    }

    /** What the handler has sent. */
    HttpReply reply() {
        if (refusal != null) throw new IllegalStateException(refusal);
        if (error != null) return reply = error;
        if (writer != null) writer.flush();
        return reply = head(isBodiless(status) ? null : body.bytes.toByteArray());
    }

    private HttpReply head(byte[] bytes) {
        Map<String, List<String>> all = new TreeMap<>(headers);
        if (getContentType() != null) all.put("Content-Type", List.of(getContentType()));
        return new HttpReply(status, all, bytes);
    }

    /** The key is completed and committed before the first byte goes out. */
    private void overflow() throws IOException {
        if (overflown) throw new IllegalStateException("the response is over " + limit + " bytes, and another one is sent");
        overflown = true;
        HttpReply head = head(null), answer = onOverflow.apply(head);
        if (!answer.isOf(head)) overflow();
        HttpServletResponse response = (HttpServletResponse) getResponse();
        response.setStatus(status);
        sendHeaders(answer, response);
        sendCookies();
        if (length >= 0) response.setContentLengthLong(length);
        passing = response.getOutputStream();
        body.bytes.writeTo(passing);
        body.bytes.reset();
    }

    static void sendHeaders(HttpReply reply, HttpServletResponse response) {
        reply.headers().forEach((name, values) -> {
            response.setHeader(name, values.get(0));
            values.stream().skip(1).forEach(value -> response.addHeader(name, value));
        });
    }

    boolean isReply(HttpReply other) {
        return other.isOf(reply);
    }

    void sendCookies() {
        cookies.forEach(((HttpServletResponse) getResponse())::addCookie);
    }

    // Status

    @Override
    public void setStatus(int status) {
        this.status = status;
    }

    /** Gone in Servlet 6. */
    @SuppressWarnings({"deprecation", "MissingOverride"})
    public void setStatus(int status, String message) {
        this.status = status;
    }

    @Override
    public int getStatus() {
        return status;
    }

    @Override
    public void sendError(int status) {
        sendError(status, null);
    }

    /**
     * What frameworks make of an HTTP error that was thrown. The container would write its error page after the filter: a
     * problem document takes its place.
     */
    @Override
    public void sendError(int status, String message) {
        requireBuffered();
        this.status = status;
        error = HttpReply.problem(status, null, message).thrown();
    }

    @Override
    public void sendRedirect(String location) {
        sendRedirect(location, SC_FOUND, true);
    }

    /** Of Servlet 6.1, whose wrapper class passes each of these overloads to the container. */
    @SuppressWarnings("MissingOverride")
    public void sendRedirect(String location, int status) {
        sendRedirect(location, status, true);
    }

    /** Of Servlet 6.1. */
    @SuppressWarnings("MissingOverride")
    public void sendRedirect(String location, boolean clearBuffer) {
        sendRedirect(location, SC_FOUND, clearBuffer);
    }

    /** Of Servlet 6.1. */
    @SuppressWarnings("MissingOverride")
    public void sendRedirect(String location, int status, boolean clearBuffer) {
        if (clearBuffer) resetBuffer();
        this.status = status;
        setHeader("Location", location);
    }

    // Header fields

    @Override
    public void setHeader(String name, String value) {
        if (isContentType(name)) setContentType(value);
        else if (value == null) headers.remove(name);
        else if (!isFraming(name)) headers.put(name, new ArrayList<>(List.of(value)));
    }

    @Override
    public void addHeader(String name, String value) {
        if (isContentType(name)) setContentType(value);
        else if (value != null && !isFraming(name)) headers.computeIfAbsent(name, any -> new ArrayList<>()).add(value);
    }

    private static boolean isContentType(String name) {
        return name.equalsIgnoreCase("Content-Type");
    }

    /** The length of the body is known at the end. */
    private static boolean isFraming(String name) {
        return name.equalsIgnoreCase("Content-Length") || name.equalsIgnoreCase("Transfer-Encoding");
    }

    @Override
    public void setContentType(String value) {
        Matcher matcher = CHARSET.matcher(value == null ? "" : value);
        if (matcher.find()) setCharacterEncoding(matcher.group(1));
        type = value == null ? null : matcher.replaceFirst("");
    }

    @Override
    public String getContentType() {
        return type == null || charset == null ? type : type + ";charset=" + charset;
    }

    /** Without effect after getWriter, as in a container. */
    @Override
    public void setCharacterEncoding(String encoding) {
        if (writer == null) charset = encoding;
    }

    /** Of Servlet 6.1. */
    @SuppressWarnings("MissingOverride")
    public void setCharacterEncoding(Charset encoding) {
        setCharacterEncoding(encoding == null ? null : encoding.name());
    }

    /** JSON is UTF-8; the container says what holds otherwise. */
    @Override
    public String getCharacterEncoding() {
        if (charset != null) return charset;
        return isJson() ? "UTF-8" : super.getCharacterEncoding();
    }

    private boolean isJson() {
        return type != null && type.toLowerCase(Locale.ROOT).matches("application/(.*\\+)?json *(;.*)?");
    }

    @Override
    public void setIntHeader(String name, int value) {
        setHeader(name, Integer.toString(value));
    }

    @Override
    public void addIntHeader(String name, int value) {
        addHeader(name, Integer.toString(value));
    }

    @Override
    public void setDateHeader(String name, long date) {
        setHeader(name, httpDate(date));
    }

    @Override
    public void addDateHeader(String name, long date) {
        addHeader(name, httpDate(date));
    }

    private static String httpDate(long milliseconds) {
        return java.time.format.DateTimeFormatter.ofPattern("EEE, dd MMM yyyy HH:mm:ss 'GMT'", Locale.ENGLISH)
            .format(java.time.Instant.ofEpochMilli(milliseconds).atOffset(java.time.ZoneOffset.UTC));
    }

    @Override
    public boolean containsHeader(String name) {
        return !getHeaders(name).isEmpty();
    }

    @Override
    public String getHeader(String name) {
        return getHeaders(name).stream().findFirst().orElse(null);
    }

    @Override
    public Collection<String> getHeaders(String name) {
        if (isContentType(name) && type != null) return List.of(getContentType());
        return headers.containsKey(name) ? List.copyOf(headers.get(name)) : super.getHeaders(name);
    }

    @Override
    public Collection<String> getHeaderNames() {
        Collection<String> names = new TreeSet<>(String.CASE_INSENSITIVE_ORDER);
        names.addAll(super.getHeaderNames());
        names.addAll(headers.keySet());
        if (type != null) names.add("Content-Type");
        return names;
    }

    @Override
    public void addCookie(Cookie cookie) {
        cookies.add(cookie);
    }

    @Override
    public void setLocale(Locale locale) {
        setHeader("Content-Language", locale.toLanguageTag());
    }

    @Override
    public void setContentLength(int length) {
        this.length = length;
    }

    @Override
    public void setContentLengthLong(long length) {
        this.length = length;
    }

    // Body

    @Override
    public ServletOutputStream getOutputStream() {
        if (writer != null) throw new IllegalStateException("getWriter() was called");
        streamUsed = true;
        return body;
    }

    @Override
    public PrintWriter getWriter() throws IOException {
        if (streamUsed) throw new IllegalStateException("getOutputStream() was called");
        if (writer == null) {
            if (!isJson()) charset = getCharacterEncoding(); // Content-Type names it from now on, as in a container
            writer = new PrintWriter(new OutputStreamWriter(body, getCharacterEncoding()));
        }
        return writer;
    }

    @Override
    public void flushBuffer() throws IOException {
        if (writer != null) writer.flush();
        else body.flush();
    }

    @Override
    public boolean isCommitted() {
        return isPassing();
    }

    private void requireBuffered() {
        if (isPassing()) throw new IllegalStateException("the response has been sent in part");
    }

    @Override
    public void resetBuffer() {
        requireBuffered();
        if (writer != null) writer.flush();
        body.bytes.reset();
    }

    @Override
    public void reset() {
        resetBuffer();
        super.reset();
        headers.clear();
        cookies.clear();
        type = null;
        charset = null;
        status = SC_OK;
        error = null;
        streamUsed = false;
        writer = null;
    }

    @Override
    public void setBufferSize(int size) {}

    private final class Body extends ServletOutputStream {
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        @Override
        public void write(int b) throws IOException {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public void write(byte[] source, int offset, int length) throws IOException {
            if (!isPassing() && (long) bytes.size() + length > limit) overflow();
            if (isPassing()) passing.write(source, offset, length);
            else bytes.write(source, offset, length);
        }

        @Override
        public void flush() throws IOException {
            if (isPassing()) passing.flush();
        }

        @Override
        public boolean isReady() {
            return true;
        }

        @Override
        public void setWriteListener(WriteListener listener) {
            throw new IllegalStateException("the request is not asynchronous");
        }
    }
}
