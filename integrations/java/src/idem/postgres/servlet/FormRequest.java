package idem.postgres.servlet;

import java.util.Collections;
import java.util.Enumeration;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletRequestWrapper;

/** A request whose parameters are those of its own {@code getParameterMap()}. */
abstract class FormRequest extends HttpServletRequestWrapper {
    FormRequest(HttpServletRequest request) {
        super(request);
    }

    /** Its body has parameters. */
    static boolean isForm(HttpServletRequest request) {
        String type = request.getContentType() == null ? "" : request.getContentType().split(";")[0].trim();
        return request.getMethod().equals("POST") && type.equalsIgnoreCase("application/x-www-form-urlencoded");
    }

    @Override
    public String getParameter(String name) {
        String[] values = getParameterValues(name);
        return values == null ? null : values[0];
    }

    @Override
    public String[] getParameterValues(String name) {
        return getParameterMap().get(name);
    }

    @Override
    public Enumeration<String> getParameterNames() {
        return Collections.enumeration(getParameterMap().keySet());
    }
}
