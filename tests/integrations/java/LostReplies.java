import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.concurrent.atomic.AtomicInteger;
import javax.sql.DataSource;

/** A pool that fails on purpose, and counts statements. NEXT: it commits, and then says that the connection was lost. */
final class LostReplies {
    static final ThreadLocal<Boolean> NEXT = ThreadLocal.withInitial(() -> false);
    /** In this thread the server is not reached any more. */
    static final ThreadLocal<Boolean> GONE = ThreadLocal.withInitial(() -> false);
    private static final ThreadLocal<String> LOSING = new ThreadLocal<>();
    static final AtomicInteger STATEMENTS = new AtomicInteger();

    private LostReplies() {}

    static DataSource over(DataSource pool) {
        return proxy(DataSource.class, (proxy, method, arguments) -> {
            if (GONE.get()) throw unreached();
            Object result = invoke(pool, method, arguments);
            return result instanceof Connection ? over((Connection) result) : result;
        });
    }

    /** The next statement of this thread with the text is executed, and its answer is lost. */
    static void losing(String text) {
        LOSING.set(text);
    }

    static DataSource unreachable() {
        return proxy(DataSource.class, (proxy, method, arguments) -> { throw unreached(); });
    }

    private static SQLException unreached() {
        return new SQLException("The connection attempt failed.", "08001");
    }

    private static Connection over(Connection connection) {
        return proxy(Connection.class, (proxy, method, arguments) -> {
            if (method.getName().equals("prepareStatement")) STATEMENTS.incrementAndGet();
            Object result = invoke(connection, method, arguments);
            if (method.getName().equals("prepareStatement") && LOSING.get() != null && ((String) arguments[0]).contains(LOSING.get())) {
                LOSING.remove();
                return losing(connection, (java.sql.PreparedStatement) result);
            }
            if (method.getName().equals("commit") && NEXT.get()) {
                NEXT.remove();
                connection.abort(Runnable::run);
                throw new SQLException("An I/O error occurred while sending to the backend.", "08006");
            }
            return result;
        });
    }

    private static Object losing(Connection connection, java.sql.PreparedStatement statement) {
        return proxy(java.sql.PreparedStatement.class, (proxy, method, arguments) -> {
            Object result = invoke(statement, method, arguments);
            if (!method.getName().equals("executeQuery")) return result;
            connection.abort(Runnable::run);
            throw new SQLException("An I/O error occurred while sending to the backend.", "08006");
        });
    }

    private static Object invoke(Object target, java.lang.reflect.Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }

    private static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(Proxy.newProxyInstance(LostReplies.class.getClassLoader(), new Class<?>[] {type}, handler));
    }
}
