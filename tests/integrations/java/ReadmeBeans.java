import com.zaxxer.hikari.HikariDataSource;
import idem.postgres.IdemDataSource;
import idem.postgres.servlet.IdemFilter;
import idem.postgres.spring.Idempotent;
import idem.postgres.spring.IdempotentRoutes;
import javax.servlet.http.HttpServletRequest;
import javax.sql.DataSource;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RestController;

/** The README's beans. */
@Configuration
class ReadmeBeans {
// IdemFilter idem(DataSource pool) {
// IdemDataSource

    static String charge(String key) {
        return "\"" + key + "\"";
    }

    static class Annotated {
// IdempotentRoutes
    }
}
