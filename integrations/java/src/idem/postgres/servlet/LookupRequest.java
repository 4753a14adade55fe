package idem.postgres.servlet;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Map;
import javax.servlet.ServletInputStream;
import javax.servlet.http.HttpServletRequest;

/**
 * A request whose route is looked up. A lookup may ask for parameters: those of a form are in the body, which is kept
 * here for the filter or for the handler.
 */
final class LookupRequest extends FormRequest {
    private final int limit;
    private BufferedRequest form; // null: its body was not read here

    /** @param limit in bytes: a larger form is left to the container */
    LookupRequest(HttpServletRequest request, int limit) {
        super(request);
        this.limit = limit;
    }

    /** The request, to go on with. */
    HttpServletRequest kept() {
        return form == null ? (HttpServletRequest) getRequest() : this;
    }

    private void keep() {
        HttpServletRequest request = (HttpServletRequest) getRequest();
        if (form != null || !isForm(request) || request.getContentLengthLong() > limit) return;
        byte[] body;
        try {
            body = BufferedRequest.read(request, limit);
        } catch (IllegalStateException error) {
            return; // an earlier filter has read it: the container has the parameters
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        if (body == null) throw new IllegalStateException("a form without a Content-Length has more than " + limit + " bytes");
        form = new BufferedRequest(request, body, null);
    }

    @Override
    public ServletInputStream getInputStream() throws IOException {
        return form == null ? super.getInputStream() : form.getInputStream();
    }

    @Override
    public BufferedReader getReader() throws IOException {
        return form == null ? super.getReader() : form.getReader();
    }

    @Override
    public Map<String, String[]> getParameterMap() {
        keep();
        return form == null ? super.getParameterMap() : form.getParameterMap();
    }
}
