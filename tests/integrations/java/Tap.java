import java.util.Objects;

/** Prints TAP. */
final class Tap {
    private static int number;
    private static int failures;

    private Tap() {}

    static synchronized void ok(boolean passed, String name) {
        number++;
        if (!passed) failures++;
        System.out.println((passed ? "ok " : "not ok ") + number + " - " + name);
    }

    static void is(Object found, Object wanted, String name) {
        boolean passed = Objects.equals(found, wanted);
        ok(passed, name);
        if (!passed) System.out.println(("# found:  " + found + "\nwanted: " + wanted).replace("\n", "\n# "));
    }

    interface Action {
        void run() throws Exception;
    }

    /** A test that throws has failed. */
    static void test(String name, Action action) {
        try {
            action.run();
        } catch (Throwable error) {
            ok(false, name);
            error.printStackTrace(System.out);
        }
    }

    static int end() {
        System.out.println("1.." + number);
        return failures == 0 ? 0 : 1;
    }
}
