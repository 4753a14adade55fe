import idem.postgres.Answer;
import idem.postgres.Claim;
import idem.postgres.Fate;
import idem.postgres.HeldLock;
import idem.postgres.IdemContext;
import idem.postgres.JdbcIdem;
import idem.postgres.Lease;
import idem.postgres.servlet.IdemFilter;
import java.sql.Connection;
import java.time.Duration;
import javax.servlet.http.HttpServletRequest;
import javax.sql.DataSource;

/** What the README's lines about leases and flows expect of an application. */
abstract class ReadmeFlows {
    interface Gateway {
        String charge(String key, long amount);

        String find(String key);
    }

    interface Mail {
        String send(String key);
    }

    interface Job {
        void stop();
    }

    abstract void insertPayment(Connection connection, String charge);

    abstract void charge(Connection connection);

    abstract String report(Connection connection);

    void handle(HttpServletRequest request, Gateway gateway, long amount) throws Exception {
// context.lease
    }

    void run(DataSource pool, String body, Mail mail, Job job) throws Exception {
// JdbcIdem
    }
}
