import com.zaxxer.hikari.HikariDataSource;
import idem.postgres.IdemDataSource;
import idem.postgres.servlet.IdemFilter;
import javax.servlet.http.HttpServletRequest;
import javax.sql.DataSource;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;

/** The README's beans. */
@Configuration
class ReadmeBeans {
// IdemFilter idem
// IdemDataSource
}
