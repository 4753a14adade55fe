import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import javax.sql.DataSource;

/** A pool that commits, and then says that the connection was lost, if NEXT is set in the thread. */
final class LostReplies {
    static final ThreadLocal<Boolean> NEXT = ThreadLocal.withInitial(() -> false);

    private LostReplies() {}

    static DataSource over(DataSource pool) {
        return proxy(DataSource.class, (proxy, method, arguments) -> {
            Object result = invoke(pool, method, arguments);
            return result instanceof Connection ? over((Connection) result) : result;
        });
    }

    private static Connection over(Connection connection) {
        return proxy(Connection.class, (proxy, method, arguments) -> {
            Object result = invoke(connection, method, arguments);
            if (method.getName().equals("commit") && NEXT.get()) {
                NEXT.remove();
                connection.abort(Runnable::run);
                throw new SQLException("An I/O error occurred while sending to the backend.", "08006");
            }
            return result;
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
