package idem.postgres;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Replays tests/vectors/lease.json: LeaseVectors FILE. Prints TAP. */
final class LeaseVectors {
    private LeaseVectors() {}

    public static void main(String[] arguments) throws Exception {
        Map<?, ?> file = (Map<?, ?>) Json.parse(Files.readString(Path.of(arguments[0])));
        int number = 0, failures = 0;
        for (Object each : (List<?>) file.get("cases")) {
            Map<?, ?> vector = (Map<?, ?>) each;
            List<String> wrong = replay(vector);
            System.out.println((wrong.isEmpty() ? "ok " : "not ok ") + ++number + " - " + vector.get("name"));
            wrong.forEach(line -> System.out.println("# " + line));
            if (!wrong.isEmpty()) failures++;
        }
        System.out.println("1.." + number);
        System.exit(failures);
    }

    private static List<String> replay(Map<?, ?> vector) {
        List<String> wrong = new ArrayList<>();
        LeaseMachine lease = new LeaseMachine(time(vector.get("lease")));
        for (Object each : (List<?>) vector.get("script")) {
            Map<?, ?> event = (Map<?, ?>) each;
            LeaseMachine.Ask ask = feed(lease, (String) event.get("event"), time(event.get("at")));
            List<String> asks = ask == LeaseMachine.Ask.NOTHING ? List.of()
                : List.of(ask.name().toLowerCase(Locale.ROOT).replace('_', ' '));
            Long due = lease.due() == LeaseMachine.NEVER ? null : Long.valueOf(lease.due());
            String found = asks + " " + due;
            String wanted = event.get("asks") + " " + (event.get("due") == null ? null : time(event.get("due")));
            if (!found.equals(wanted)) wrong.add(event.get("at") + " " + event.get("event") + ": " + found + ", not " + wanted);
        }
        return wrong;
    }

    private static LeaseMachine.Ask feed(LeaseMachine lease, String event, long at) {
        switch (event) {
        case "claim": lease.claim(at); return LeaseMachine.Ask.NOTHING;
        case "acquired": return lease.acquired(at);
        case "tick": return lease.tick(at);
        case "renewed": return lease.renewed(at);
        case "stale": return lease.stale(at);
        case "failed": lease.failed(at); return LeaseMachine.Ask.NOTHING;
        case "returned": return lease.returned(at);
        case "threw": return lease.threw(at);
        default: throw new IllegalArgumentException(event);
        }
    }

    private static long time(Object value) {
        return ((Double) value).longValue();
    }
}
