import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.TimeUnit;

/** The application as a process that can be killed. */
final class ServerProcess implements AutoCloseable {
    final int port;
    private final String[] command;
    private final File log;
    private volatile Process process;

    /** The properties server.class, server.classpath and server.log say what to start. */
    ServerProcess(String databaseUrl) throws IOException, InterruptedException {
        try (ServerSocket probe = new ServerSocket(0)) {
            port = probe.getLocalPort();
        }
        command = new String[] {System.getProperty("java.home") + "/bin/java", "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC", "-Xmx256m",
            "-Djava.library.path=" + System.getProperty("java.library.path"), "-cp", System.getProperty("server.classpath"),
            System.getProperty("server.class"), Integer.toString(port), databaseUrl};
        log = new File(System.getProperty("server.log"));
        start();
    }

    private void start() throws IOException, InterruptedException {
        process = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(log)).start();
        while (process.isAlive()) {
            try (Socket socket = new Socket("127.0.0.1", port)) {
                return;
            } catch (IOException notYet) {
                Thread.sleep(100);
            }
        }
        throw new IOException("the server did not start; see " + log);
    }

    /** SIGKILL, and a new one on the same port. */
    void replace() throws IOException, InterruptedException {
        close();
        start();
    }

    /** After a server that ended by itself. */
    void restart() throws IOException, InterruptedException {
        process.waitFor(2, TimeUnit.MINUTES);
        start();
    }

    @Override
    public void close() {
        process.destroyForcibly().onExit().join();
    }
}
