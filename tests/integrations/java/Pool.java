import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;

/** The pool that Spring Boot has, too. */
final class Pool {
    private Pool() {}

    static HikariDataSource open(String url) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(url);
        config.setMaximumPoolSize(12);
        config.setConnectionTimeout(120_000);
        return new HikariDataSource(config);
    }
}
