import idem.postgres.servlet.IdemFilter;
import java.io.IOException;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import javax.servlet.ServletContext;
import javax.servlet.http.HttpServlet;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import javax.sql.DataSource;

/** The example of the README: POST /shop/orders places an order, once for each Idempotency-Key. */
final class Shop {
    private Shop() {}

    static void register(ServletContext context, DataSource pool) {
        // README
        IdemFilter filter = new IdemFilter(IdemFilter.options(pool).scope(HttpServletRequest::getRemoteUser));
        context.addFilter("idem", filter).addMappingForUrlPatterns(null, true, "/shop/*");
        context.addServlet("orders", new HttpServlet() {
            @Override
            protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
                String insert = "INSERT INTO shop_order (item) VALUES (?) RETURNING id";
                try (PreparedStatement order = IdemFilter.context(request).connection().prepareStatement(insert)) {
                    order.setString(1, request.getParameter("item"));
                    ResultSet row = order.executeQuery();
                    row.next();
                    response.setStatus(201);
                    response.getWriter().print("{\"id\": " + row.getLong(1) + "}");
                } catch (SQLException error) { throw new IOException(error); }
        } }).addMapping("/shop/orders");
        // README
    }
}
