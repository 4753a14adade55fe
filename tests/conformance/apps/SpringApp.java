import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import idem.postgres.HttpOptions;
import idem.postgres.IdemContext;
import idem.postgres.IdemDataSource;
import idem.postgres.servlet.IdemFilter;
import java.util.EnumSet;
import javax.servlet.DispatcherType;
import javax.servlet.Filter;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.FilterHolder;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;
import org.springframework.context.annotation.Bean;
import org.springframework.http.ResponseEntity;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RequestMethod;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.context.support.AnnotationConfigWebApplicationContext;
import org.springframework.web.servlet.DispatcherServlet;
import org.springframework.web.servlet.mvc.method.annotation.RequestMappingHandlerAdapter;
import org.springframework.web.servlet.mvc.method.annotation.RequestMappingHandlerMapping;

/** The reference app of {@code idem http-test --reference} for Spring MVC: ../README.md has its routes. */
public final class SpringApp {
    private SpringApp() {}

    public static void main(String[] arguments) throws Exception {
        Reference.prepare();
        AnnotationConfigWebApplicationContext context = new AnnotationConfigWebApplicationContext();
        context.register(Application.class);
        ServletContextHandler handler = new ServletContextHandler();
        filter(handler, Reference.options(), "/orders", "/other", "/stream", "/late", "/double");
        filter(handler, Reference.options(), "/double");
        filter(handler, Reference.leasedOptions(), "/leased");
        handler.addServlet(new ServletHolder(new DispatcherServlet(context)), "/");
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        connector.setPort(Reference.port());
        server.addConnector(connector);
        server.setHandler(handler);
        server.start();
        System.out.println(connector.getLocalPort());
    }

    private static void filter(ServletContextHandler handler, HttpOptions<HttpServletRequest> options, String... routes) {
        Filter filter = new IdemFilter(options);
        for (String route : routes) handler.addFilter(new FilterHolder(filter), route, EnumSet.of(DispatcherType.REQUEST));
    }

    /** Without @Configuration, whose CGLIB does not run in Debian's packages. */
    public static class Application {
        @Bean
        Routes routes() {
            return new Routes(new JdbcTemplate(new IdemDataSource(Reference.POOL)));
        }

        @Bean
        RequestMappingHandlerMapping mapping() {
            return new RequestMappingHandlerMapping();
        }

        @Bean
        RequestMappingHandlerAdapter adapter() {
            return new RequestMappingHandlerAdapter();
        }
    }

    @RestController
    public static class Routes {
        private final JdbcTemplate database; // in a handler, the request's transaction

        Routes(JdbcTemplate database) {
            this.database = database;
        }

        private String insert(String key) {
            return database.queryForObject("INSERT INTO effects (key) VALUES (?) RETURNING id", String.class, key);
        }

        @RequestMapping(path = {"/orders", "/other", "/late", "/double"}, method = {RequestMethod.POST, RequestMethod.PUT})
        ResponseEntity<String> work(@RequestBody String json, HttpServletRequest request, HttpServletResponse response) throws Exception {
            JsonObject body = JsonParser.parseString(json).getAsJsonObject();
            IdemContext context = IdemFilter.context(request);
            String key = Reference.begin(context), id = insert(key);
            Reference.pause(body);
            if (request.getRequestURI().equals("/late")) Reference.insertLate(context.connection(), key);
            if (body.has("throw")) response.sendError(body.get("throw").getAsInt());
            return body.has("throw") ? null : answer(body, id);
        }

        @PostMapping("/leased")
        ResponseEntity<String> leased(@RequestBody String json, HttpServletRequest request) throws Exception {
            JsonObject body = JsonParser.parseString(json).getAsJsonObject();
            IdemContext context = IdemFilter.context(request);
            String key = Reference.begin(context);
            Reference.pause(body);
            Reference.insert(context.connection(), key); // in the transaction that stores the response
            return answer(body, context.lease().orElseThrow().fence());
        }

        private static ResponseEntity<String> answer(JsonObject body, Object id) {
            return ResponseEntity.status(Reference.status(body)).header("Location", "/orders/" + id)
                .header("Content-Type", "application/json").body(Reference.text(body, id));
        }

        @PostMapping("/stream")
        void stream(HttpServletRequest request, HttpServletResponse response) throws Exception {
            String id = insert(Reference.begin(IdemFilter.context(request)));
            response.setStatus(201);
            response.setContentType("text/plain");
            for (String part : new String[] {"a", "b", "c " + id}) {
                response.getWriter().print(part);
                response.flushBuffer();
                Thread.sleep(5);
            }
        }

        @GetMapping(path = "/effects", produces = "application/json")
        String effects(@RequestParam("key") String key) throws Exception {
            return Reference.effects(key);
        }

        @PostMapping("/hooks/kill")
        void kill() {
            Reference.kill();
        }

        @PostMapping("/hooks/lose-commit")
        ResponseEntity<Void> loseCommit() throws Exception {
            Reference.loseCommit();
            return ResponseEntity.noContent().build();
        }

        @PostMapping("/hooks/disconnect")
        ResponseEntity<Void> disconnect() throws Exception {
            Reference.disconnect();
            return ResponseEntity.noContent().build();
        }
    }
}
