package idem.postgres.spring;

import idem.postgres.HttpOptions;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.BiFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.springframework.beans.factory.BeanFactoryUtils;
import org.springframework.context.ApplicationContext;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.annotation.AnnotationAwareOrderComparator;
import org.springframework.util.ClassUtils;
import org.springframework.web.method.HandlerMethod;
import org.springframework.web.servlet.HandlerExecutionChain;
import org.springframework.web.servlet.HandlerMapping;

/**
 * For {@link HttpOptions#perRoute}: the filter handles the requests whose controller is {@link Idempotent}. It asks
 * Spring MVC's mappings, as the DispatcherServlet does afterwards. The types of its requests are those of the servlet API
 * that Spring has, javax or jakarta, so that it names none of them. Safe for use by several threads.
 *
 * @param <R> HttpServletRequest
 */
public final class IdempotentRoutes<R> implements BiFunction<HttpOptions<R>, R, HttpOptions<R>> {
    private static final Pattern DURATION = Pattern.compile("(\\d+) ?(ms|s|min|h|d)");
    private static final Map<String, ChronoUnit> UNITS = Map.of("ms", ChronoUnit.MILLIS, "s", ChronoUnit.SECONDS,
        "min", ChronoUnit.MINUTES, "h", ChronoUnit.HOURS, "d", ChronoUnit.DAYS);
    private static final Method LOOKUP = method(HandlerMapping.class, "getHandler");
    private static final Method PARSE = parse();

    private final ApplicationContext context;
    private volatile List<HandlerMapping> mappings; // null: not looked for yet

    /** @param context that of the DispatcherServlet, which has the mappings */
    public IdempotentRoutes(ApplicationContext context) {
        this.context = Objects.requireNonNull(context);
    }

    /**
     * The options of the request's route; null: it is not {@link Idempotent}.
     *
     * @throws IllegalArgumentException a duration of the annotation is none
     * @throws IllegalStateException the context has no mappings
     */
    @Override
    public HttpOptions<R> apply(HttpOptions<R> options, R request) {
        Idempotent route = annotation(handler(request));
        if (route == null) return null;
        HttpOptions<R> own = options.copy().keyRequired(route.required());
        if (!route.scope().isEmpty()) own.family(route.scope());
        if (!route.ttl().isEmpty()) own.ttl(duration(route.ttl()));
        if (!route.lease().isEmpty()) own.lease(duration(route.lease()));
        return own;
    }

    private static Idempotent annotation(Object handler) {
        if (!(handler instanceof HandlerMethod)) return null;
        HandlerMethod method = (HandlerMethod) handler;
        Idempotent own = AnnotatedElementUtils.findMergedAnnotation(method.getMethod(), Idempotent.class);
        return own == null ? AnnotatedElementUtils.findMergedAnnotation(method.getBeanType(), Idempotent.class) : own;
    }

    /** Null: there is none, or the DispatcherServlet will refuse the request (such as by 405 or 415). */
    private Object handler(R request) {
        if (PARSE != null) call(PARSE, null, request);
        for (HandlerMapping mapping : mappings()) {
            Object chain;
            try {
                chain = call(LOOKUP, mapping, request);
            } catch (Refused error) {
                return null;
            }
            if (chain != null) return ((HandlerExecutionChain) chain).getHandler();
        }
        return null;
    }

    private List<HandlerMapping> mappings() {
        if (mappings == null) {
            List<HandlerMapping> found = new ArrayList<>(
                BeanFactoryUtils.beansOfTypeIncludingAncestors(context, HandlerMapping.class, true, false).values());
            if (found.isEmpty())
                throw new IllegalStateException("the application context has no HandlerMapping: pass that of the DispatcherServlet");
            AnnotationAwareOrderComparator.sort(found);
            mappings = found;
        }
        return mappings;
    }

    /** A checked exception of a mapping. */
    @SuppressWarnings("serial")
    private static final class Refused extends RuntimeException {}

    private static Object call(Method method, Object target, Object request) {
        try {
            return method.invoke(target, request);
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof RuntimeException) throw (RuntimeException) error.getCause();
            if (error.getCause() instanceof Error) throw (Error) error.getCause();
            throw new Refused();
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }

    private static Method method(Class<?> type, String name) {
        return Arrays.stream(type.getMethods()).filter(method -> method.getName().equals(name)).findFirst().orElseThrow();
    }

    /** From Spring 5.3 on, mappings expect a path that was parsed. */
    private static Method parse() {
        String type = "org.springframework.web.util.ServletRequestPathUtils";
        ClassLoader loader = IdempotentRoutes.class.getClassLoader();
        return ClassUtils.isPresent(type, loader) ? method(ClassUtils.resolveClassName(type, loader), "parseAndCache") : null;
    }

    private static Duration duration(String text) {
        Matcher parts = DURATION.matcher(text);
        if (!parts.matches())
            throw new IllegalArgumentException("\"" + text + "\" is no duration: write a number and ms, s, min, h or d, such as \"30 s\"");
        return Duration.of(Long.parseLong(parts.group(1)), UNITS.get(parts.group(2)));
    }
}
