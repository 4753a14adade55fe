package idem.postgres;

import java.util.ArrayList;
import java.util.List;

/** The text of a value, as a record prints it: {@code Ticket[outcome=ACQUIRED, attempt=1]}. */
final class Description {
    private Description() {}

    /** Members that are null are left out. Bytes are shown by their number. */
    static String of(Object value, Object... namesAndMembers) {
        List<String> members = new ArrayList<>();
        for (int i = 0; i < namesAndMembers.length; i += 2) {
            Object member = namesAndMembers[i + 1];
            if (member instanceof byte[]) member = ((byte[]) member).length + " bytes";
            if (member != null) members.add(namesAndMembers[i] + "=" + member);
        }
        return value.getClass().getSimpleName() + "[" + String.join(", ", members) + "]";
    }
}
