import com.zaxxer.hikari.HikariDataSource;
import idem.postgres.IdemDataSource;
import idem.postgres.servlet.IdemFilter;
import java.util.EnumSet;
import java.util.UUID;
import javax.servlet.DispatcherType;
import javax.sql.DataSource;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.FilterHolder;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;
import org.springframework.aop.framework.ProxyFactory;
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
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.context.ContextLoaderListener;
import org.springframework.web.context.support.AnnotationConfigWebApplicationContext;
import org.springframework.web.filter.DelegatingFilterProxy;
import org.springframework.web.servlet.DispatcherServlet;
import org.springframework.web.servlet.mvc.method.annotation.ExceptionHandlerExceptionResolver;
import org.springframework.web.servlet.mvc.method.annotation.RequestMappingHandlerAdapter;
import org.springframework.web.servlet.mvc.method.annotation.RequestMappingHandlerMapping;

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
        handler.addFilter(new FilterHolder(new DelegatingFilterProxy("idem")), "/*", EnumSet.of(DispatcherType.REQUEST));
        handler.addServlet(new ServletHolder(new DispatcherServlet(context)), "/");
        Server server = new Server(Integer.parseInt(arguments[0]));
        server.setHandler(handler);
        server.start();
    }

    /** Without @Configuration and the like, whose CGLIB does not run in Debian's packages: what they would register is registered here. */
    public static class Application {
        @Bean
        HikariDataSource pool() {
            return Pool.open(url);
        }

        @Bean
        IdemFilter idem(DataSource pool) {
            return new IdemFilter(IdemFilter.options(pool).scope(request -> "shop:" + request.getHeader("X-Account")));
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
}
