package idem.postgres;

import java.lang.reflect.Method;

/** Attributes of the active span, where the API of OpenTelemetry is on the class path. */
final class Telemetry {
    private static final Method CURRENT = method("io.opentelemetry.api.trace.Span", "current");
    private static final Method SET = method("io.opentelemetry.api.trace.Span", "setAttribute", String.class, String.class);

    private Telemetry() {}

    static void note(HttpOutcome outcome) {
        if (CURRENT == null || SET == null) return;
        try {
            Object span = CURRENT.invoke(null);
            if (outcome.keyHash() != null) SET.invoke(span, "idempotency.key_hash", outcome.keyHash());
            SET.invoke(span, "idempotency.outcome", outcome.outcome());
            if (outcome.attempt() != null) SET.invoke(span, "idempotency.attempt", outcome.attempt().toString());
            SET.invoke(span, "idempotency.replayed", Boolean.toString(outcome.isReplayed()));
        } catch (ReflectiveOperationException | RuntimeException error) {
            System.getLogger("idem.postgres").log(System.Logger.Level.DEBUG, "could not note attributes of a span", error);
        }
    }

    private static Method method(String type, String name, Class<?>... parameters) {
        try {
            return Class.forName(type).getMethod(name, parameters);
        } catch (ReflectiveOperationException | LinkageError absent) {
            return null;
        }
    }
}
