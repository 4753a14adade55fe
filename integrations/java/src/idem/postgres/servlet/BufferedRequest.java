package idem.postgres.servlet;

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.servlet.AsyncContext;
import javax.servlet.ReadListener;
import javax.servlet.ServletInputStream;
import javax.servlet.ServletRequest;
import javax.servlet.ServletResponse;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpUpgradeHandler;
import javax.servlet.http.Part;

/** A request whose body was read, and can be read again: as a stream, a reader, or the parameters of a form. */
final class BufferedRequest extends FormRequest {
    private final byte[] body;
    private final BufferedResponse response;
    private ServletInputStream stream;
    private BufferedReader reader;
    private Map<String, List<String>> form; // null: not parsed yet

    BufferedRequest(HttpServletRequest request, byte[] body, BufferedResponse response) {
        super(request);
        this.body = body;
        this.response = response;
    }

    /** The body; null: it has more than {@code limit} bytes. */
    static byte[] read(HttpServletRequest request, int limit) throws IOException {
        long length = request.getContentLengthLong();
        if (length > limit) return null;
        byte[] body = request.getInputStream().readNBytes((int) Math.min(limit + 1L, Integer.MAX_VALUE));
        if (length > body.length)
            throw new IllegalStateException("the body was read before IdemFilter, such as by a filter that calls getParameter");
        return body.length > limit ? null : body;
    }

    @Override
    public ServletInputStream getInputStream() {
        if (reader != null) throw new IllegalStateException("getReader() was called");
        if (stream == null) stream = new Stream(new ByteArrayInputStream(body));
        return stream;
    }

    @Override
    public BufferedReader getReader() {
        if (stream != null) throw new IllegalStateException("getInputStream() was called");
        if (reader == null)
            reader = new BufferedReader(
                new InputStreamReader(new ByteArrayInputStream(body), charset(StandardCharsets.ISO_8859_1)));
        return reader;
    }

    private Charset charset(Charset otherwise) {
        return getCharacterEncoding() == null ? otherwise : Charset.forName(getCharacterEncoding());
    }

    @Override
    public Map<String, String[]> getParameterMap() {
        if (form == null) form = isForm(this) ? parseForm() : Map.of();
        Map<String, String[]> all = new LinkedHashMap<>(super.getParameterMap()); // of the query, which a forward changes
        form.forEach((name, values) -> {
            List<String> joined = new ArrayList<>(Arrays.asList(all.getOrDefault(name, new String[0])));
            joined.addAll(values);
            all.put(name, joined.toArray(new String[0]));
        });
        return Collections.unmodifiableMap(all);
    }

    private Map<String, List<String>> parseForm() {
        Map<String, List<String>> all = new LinkedHashMap<>();
        Charset charset = charset(StandardCharsets.UTF_8);
        for (String pair : new String(body, StandardCharsets.ISO_8859_1).split("&")) {
            if (pair.isEmpty()) continue;
            int equals = pair.indexOf('=');
            String name = decoded(equals < 0 ? pair : pair.substring(0, equals), charset);
            all.computeIfAbsent(name, any -> new ArrayList<>()).add(equals < 0 ? "" : decoded(pair.substring(equals + 1), charset));
        }
        return all;
    }

    /** As browsers do (WHATWG URL): a "%" without two digits stands for itself. */
    private static String decoded(String text, Charset charset) {
        byte[] bytes = new byte[text.length()];
        int size = 0;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            int high = c == '%' && i + 2 < text.length() ? Character.digit(text.charAt(i + 1), 16) : -1;
            int low = high < 0 ? -1 : Character.digit(text.charAt(i + 2), 16);
            if (low >= 0) i += 2;
            bytes[size++] = (byte) (low >= 0 ? high << 4 | low : c == '+' ? ' ' : c);
        }
        return new String(bytes, 0, size, charset);
    }

    byte[] body() {
        return body;
    }

    @Override
    public Collection<Part> getParts() {
        throw new IllegalStateException("getParts() does not work behind IdemFilter: parse getInputStream()");
    }

    @Override
    public Part getPart(String name) {
        getParts();
        return null;
    }

    @Override
    public boolean isAsyncSupported() {
        return false;
    }

    @Override
    public AsyncContext startAsync() {
        throw response.refuse("The handler is asynchronous. Leave this route out of IdemFilter.");
    }

    @Override
    public AsyncContext startAsync(ServletRequest request, ServletResponse response) {
        return startAsync();
    }

    @Override
    public <T extends HttpUpgradeHandler> T upgrade(Class<T> handler) {
        throw response.refuse("The handler upgrades the connection. Leave this route out of IdemFilter.");
    }

    private static final class Stream extends ServletInputStream {
        private final ByteArrayInputStream bytes;

        Stream(ByteArrayInputStream bytes) {
            this.bytes = bytes;
        }

        @Override
        public int read() {
            return bytes.read();
        }

        @Override
        public int read(byte[] target, int offset, int length) {
            return bytes.read(target, offset, length);
        }

        @Override
        public int available() {
            return bytes.available();
        }

        @Override
        public boolean isFinished() {
            return bytes.available() == 0;
        }

        @Override
        public boolean isReady() {
            return true;
        }

        @Override
        public void setReadListener(ReadListener listener) {
            throw new IllegalStateException("the request is not asynchronous");
        }
    }
}
