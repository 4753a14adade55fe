package idem.postgres.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * A method of a controller, or all methods of one, that {@code IdemFilter} handles, by {@link IdempotentRoutes}. That of
 * a method takes the place of that of its class. Durations are a number and a unit: ms, s, min, h or d, such as
 * {@code "30 s"}.
 */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.METHOD, ElementType.TYPE})
public @interface Idempotent {
    /**
     * The family of the scope: the key is in {@code scope() + "/" + S}, where S is what the option {@code scope} returns.
     * "": in S.
     */
    String scope() default "";

    /** How long the key and its response are kept. "": as the filter's options say. */
    String ttl() default "";

    /** Leased mode, and how long the handler may be silent. "": as the filter's options say. */
    String lease() default "";

    /** False: without a key the handler runs in a plain transaction. True: the scope decides (400 for POST and PATCH). */
    boolean required() default true;
}
