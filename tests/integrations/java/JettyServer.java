import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;

/** The application on Jetty: JettyServer PORT DATABASE_URL. */
final class JettyServer {
    private JettyServer() {}

    public static void main(String[] arguments) throws Exception {
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(arguments[0]));
        server.addConnector(connector);
        ServletContextHandler handler = new ServletContextHandler();
        handler.addEventListener(new javax.servlet.ServletContextListener() {
            @Override
            public void contextInitialized(javax.servlet.ServletContextEvent event) {
                App.register(event.getServletContext(), Pool.open(arguments[1]));
            }

            @Override
            public void contextDestroyed(javax.servlet.ServletContextEvent event) {}
        });
        server.setHandler(handler);
        server.start();
    }
}
