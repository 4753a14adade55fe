import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;

/** The reference app of {@code idem http-test --reference} on Jetty. */
final class JettyApp {
    private JettyApp() {}

    public static void main(String[] arguments) throws Exception {
        Reference.prepare();
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        connector.setPort(Reference.port());
        server.addConnector(connector);
        ServletContextHandler handler = new ServletContextHandler();
        handler.addEventListener(new javax.servlet.ServletContextListener() {
            @Override
            public void contextInitialized(javax.servlet.ServletContextEvent event) {
                Reference.register(event.getServletContext());
            }

            @Override
            public void contextDestroyed(javax.servlet.ServletContextEvent event) {}
        });
        server.setHandler(handler);
        server.start();
        System.out.println(connector.getLocalPort());
    }
}
