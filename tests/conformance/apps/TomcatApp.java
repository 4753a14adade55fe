import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;

/** The reference app of {@code idem http-test --reference} on Tomcat 9 and, for jakarta.servlet, 10. */
final class TomcatApp {
    private TomcatApp() {}

    public static void main(String[] arguments) throws Exception {
        Reference.prepare();
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(System.getProperty("java.io.tmpdir"));
        tomcat.setPort(Reference.port());
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        Context context = tomcat.addContext("", null);
        context.addServletContainerInitializer((classes, servlets) -> Reference.register(servlets), null);
        tomcat.start();
        System.out.println(tomcat.getConnector().getLocalPort());
        tomcat.getServer().await();
    }
}
