import com.zaxxer.hikari.HikariDataSource;
import idem.postgres.HttpOptions;
import idem.postgres.IdemContext;
import idem.postgres.IdemDataSource;
import idem.postgres.servlet.IdemFilter;
import idem.postgres.spring.Idempotent;
import idem.postgres.spring.IdempotentRoutes;
import java.util.EnumSet;
import java.util.UUID;
import javax.servlet.DispatcherType;
import javax.servlet.Filter;
import javax.servlet.http.HttpServletRequest;
import javax.sql.DataSource;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.FilterHolder;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;
import org.springframework.aop.framework.ProxyFactory;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Primary;
import org.springframework.http.HttpStatus;
import org.springframework.http.ResponseEntity;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.annotation.AnnotationTransactionAttributeSource;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.interceptor.TransactionInterceptor;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.context.ContextLoaderListener;
import org.springframework.web.context.support.AnnotationConfigWebApplicationContext;
import org.springframework.web.filter.DelegatingFilterProxy;
import org.springframework.web.servlet.DispatcherServlet;
import org.springframework.web.servlet.mvc.method.annotation.ExceptionHandlerExceptionResolver;
import org.springframework.web.servlet.mvc.method.annotation.RequestMappingHandlerAdapter;
import org.springframework.web.servlet.mvc.method.annotation.RequestMappingHandlerMapping;
import org.springframework.web.servlet.mvc.support.DefaultHandlerExceptionResolver;

/** Spring MVC with a service that knows nothing of idem: SpringServer PORT DATABASE_URL. */
public final class SpringServer {
    private static String url;

    private SpringServer() {}

    public static void main(String[] arguments) throws Exception {
        url = arguments[1];
        AnnotationConfigWebApplicationContext context = new AnnotationConfigWebApplicationContext();
        context.register(Application.class);
        ServletContextHandler handler = new ServletContextHandler();
        handler.addEventListener(new ContextLoaderListener(context));
        addFilter(handler, "idem", "/orders");
        Filter reader = (request, response, chain) -> {
            request.getParameter("name");
            chain.doFilter(request, response);
        };
        handler.addFilter(new FilterHolder(reader), "/routes/read", EnumSet.of(DispatcherType.REQUEST));
        addFilter(handler, "routes", "/routes/*");
        addFilter(handler, "idem", "/both/*");
        addFilter(handler, "routes", "/both/*");
        handler.addServlet(new ServletHolder(new DispatcherServlet(context)), "/");
        Server server = new Server(Integer.parseInt(arguments[0]));
        server.setHandler(handler);
        server.start();
    }

    private static void addFilter(ServletContextHandler handler, String bean, String path) {
        handler.addFilter(new FilterHolder(new DelegatingFilterProxy(bean)), path, EnumSet.of(DispatcherType.REQUEST));
    }

    private static HttpOptions<HttpServletRequest> options(DataSource pool) {
        return IdemFilter.options(pool).scope(request -> "shop:" + request.getHeader("X-Account"));
    }

    /** Without @Configuration and the like, whose CGLIB does not run in Debian's packages: what they would register is registered here. */
    public static class Application {
        @Bean
        HikariDataSource pool() {
            return Pool.open(url);
        }

        @Bean
        IdemFilter idem(DataSource pool) {
            return new IdemFilter(options(pool));
        }

        @Bean
        IdemFilter routes(DataSource pool, ApplicationContext context) {
            return new IdemFilter(options(pool).perRoute(new IdempotentRoutes<>(context)));
        }

        @Bean
        Routes controllerOfRoutes(DataSource dataSource) {
            return new Routes(new JdbcTemplate(dataSource));
        }

        @Bean
        Guarded controllerOfGuarded(DataSource dataSource) {
            return new Guarded(new JdbcTemplate(dataSource));
        }

        @Bean
        @Primary
        DataSource dataSource(HikariDataSource pool) {
            return new IdemDataSource(pool);
        }

        @Bean
        DataSourceTransactionManager transactions(DataSource dataSource) {
            return new DataSourceTransactionManager(dataSource);
        }

        @Bean
        Orders orders(DataSource dataSource, DataSourceTransactionManager transactions) {
            ProxyFactory factory = new ProxyFactory(new OrdersByJdbc(new JdbcTemplate(dataSource)));
            factory.addAdvice(new TransactionInterceptor(transactions, new AnnotationTransactionAttributeSource()));
            return (Orders) factory.getProxy();
        }

        @Bean
        Controller controller(Orders orders) {
            return new Controller(orders);
        }

        @Bean
        RequestMappingHandlerMapping mapping() {
            return new RequestMappingHandlerMapping();
        }

        @Bean
        RequestMappingHandlerAdapter adapter() {
            return new RequestMappingHandlerAdapter();
        }

        @Bean
        ExceptionHandlerExceptionResolver resolver() {
            return new ExceptionHandlerExceptionResolver();
        }

        @Bean
        DefaultHandlerExceptionResolver resolverOfSpring() {
            return new DefaultHandlerExceptionResolver();
        }
    }

    public interface Orders {
        long place(String name);
    }

    public static class OrdersByJdbc implements Orders {
        private final JdbcTemplate database;

        OrdersByJdbc(JdbcTemplate database) {
            this.database = database;
        }

        @Override
        @Transactional
        public long place(String name) {
            long id = database.queryForObject("INSERT INTO orders (name) VALUES (?) RETURNING id", Long.class, name);
            if (name.endsWith("declined")) throw new Declined();
            if (name.endsWith("bug")) throw new IllegalStateException("a bug");
            return id;
        }
    }

    @SuppressWarnings("serial")
    public static class Declined extends RuntimeException {}

    @RestController
    public static class Controller {
        private final Orders orders;

        Controller(Orders orders) {
            this.orders = orders;
        }

        @PostMapping("/orders")
        ResponseEntity<String> place(@RequestParam("name") String name) {
            return ResponseEntity.status(HttpStatus.CREATED).body("{\"nonce\": \"" + UUID.randomUUID() + "\", \"id\": "
                + orders.place(name) + "}");
        }

        @ExceptionHandler(Declined.class)
        ResponseEntity<String> declined() {
            return ResponseEntity.status(HttpStatus.PAYMENT_REQUIRED).body("declined " + UUID.randomUUID());
        }
    }

    /** Inserts an order; the answer has its number and what the handler has of idem. */
    static String insert(JdbcTemplate database, HttpServletRequest request, String name) {
        long id = database.queryForObject("INSERT INTO orders (name) VALUES (?) RETURNING id", Long.class, name);
        IdemContext context = IdemFilter.context(request);
        return id + (context == null ? " unguarded" : " " + context.scope() + (context.lease().isPresent() ? " leased" : ""));
    }

    @RestController
    public static class Routes {
        private final JdbcTemplate database;

        Routes(JdbcTemplate database) {
            this.database = database;
        }

        @Idempotent
        @PostMapping({"/routes/paid", "/both/paid"})
        String pay(HttpServletRequest request, @RequestParam("name") String name) {
            return insert(database, request, name);
        }

        @PostMapping("/routes/open")
        String open(HttpServletRequest request, @RequestParam("name") String name) {
            return insert(database, request, name);
        }

        @Idempotent
        @PostMapping("/routes/bug")
        String fail(HttpServletRequest request, @RequestParam("name") String name) {
            insert(database, request, name);
            throw new IllegalStateException("a bug");
        }

        @Idempotent(required = false, scope = "refunds", ttl = "2 d")
        @PostMapping("/routes/refund")
        String refund(HttpServletRequest request, @RequestParam("name") String name) {
            return insert(database, request, name);
        }

        @Idempotent(lease = "20 s")
        @PostMapping("/routes/leased")
        String charge(HttpServletRequest request, @RequestParam("name") String name) {
            return insert(database, request, name);
        }

        @Idempotent(ttl = "soon")
        @PostMapping("/routes/wrong")
        String wrong(HttpServletRequest request, @RequestParam("name") String name) {
            return insert(database, request, name);
        }

        @Idempotent
        @PostMapping(value = "/routes/form", params = "kind=paid")
        String paidForm(HttpServletRequest request, @RequestParam("name") String name) {
            return insert(database, request, name);
        }

        @PostMapping(value = {"/routes/form", "/routes/read"}, params = "kind=open")
        String openForm(HttpServletRequest request, @RequestParam("name") String name) {
            return insert(database, request, name);
        }
    }

    @Idempotent
    @RestController
    @RequestMapping("/routes/guarded")
    public static class Guarded {
        private final JdbcTemplate database;

        Guarded(JdbcTemplate database) {
            this.database = database;
        }

        @PostMapping("/inherited")
        String inherit(HttpServletRequest request, @RequestParam("name") String name) {
            return insert(database, request, name);
        }

        @Idempotent(scope = "own")
        @PostMapping("/own")
        String own(HttpServletRequest request, @RequestParam("name") String name) {
            return insert(database, request, name);
        }
    }
}
