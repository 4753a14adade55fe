import com.zaxxer.hikari.HikariDataSource;
import idem.postgres.servlet.IdemFilter;
import java.io.IOException;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Collections;
import java.util.Map;
import javax.servlet.ServletContext;
import javax.servlet.http.HttpServlet;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletRequestWrapper;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.handler.ErrorHandler;
import org.eclipse.jetty.servlet.ServletContextHandler;

/** POST /orders places an order, once for each Idempotency-Key. Main JDBC_URL */
public final class Main {
    public static void main(String[] arguments) throws Exception {
        HikariDataSource pool = new HikariDataSource();
        pool.setJdbcUrl(arguments[0]);
        ServletContextHandler handler = new ServletContextHandler();
        ServletContext context = handler.getServletContext();

        // Stands in for your authentication.
        Map<String, String> clients = Collections.singletonMap("key-of-alice", "alice");
        context.addFilter("authentication", (request, response, chain) -> {
            HttpServletRequest http = (HttpServletRequest) request;
            String client = clients.get(http.getHeader("X-API-Key"));
            if (client == null) ((HttpServletResponse) response).sendError(401);
            else chain.doFilter(new HttpServletRequestWrapper(http) {
                @Override
                public String getRemoteUser() { return client; }
            }, response);
        }).addMappingForUrlPatterns(null, true, "/*");

        // README
        IdemFilter filter = new IdemFilter(IdemFilter.options(pool).scope(HttpServletRequest::getRemoteUser));
        context.addFilter("idem", filter).addMappingForUrlPatterns(null, true, "/orders");
        context.addServlet("orders", new HttpServlet() {
            @Override
            protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
                String insert = "INSERT INTO orders (item) VALUES (?) RETURNING id";
                try (PreparedStatement order = IdemFilter.context(request).connection().prepareStatement(insert)) {
                    order.setString(1, request.getParameter("item"));
                    ResultSet row = order.executeQuery();
                    row.next();
                    response.setStatus(201);
                    response.setContentType("application/json");
                    response.getWriter().print("{\"id\": " + row.getLong(1) + "}");
                } catch (SQLException error) { throw new IOException(error); }
        } }).addMapping("/orders");
        // README

        handler.setErrorHandler(new ErrorHandler() {
            @Override // Jetty's page shows the text of the exception. This one is empty.
            public void handle(String target, Request base, HttpServletRequest request, HttpServletResponse response) {
                base.setHandled(true);
            }
        });
        Server server = new Server(Integer.getInteger("port", 8080));
        server.setHandler(handler);
        server.start();
    }
}
