import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;

/** The application on Tomcat: TomcatServer PORT DATABASE_URL. */
final class TomcatServer {
    private TomcatServer() {}

    public static void main(String[] arguments) throws Exception {
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(System.getProperty("java.io.tmpdir"));
        tomcat.setPort(Integer.parseInt(arguments[0]));
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        Context context = tomcat.addContext("", null);
        context.addServletContainerInitializer((classes, servlets) -> App.register(servlets, Pool.open(arguments[1])), null);
        tomcat.start();
        tomcat.getServer().await();
    }
}
