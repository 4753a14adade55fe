package idem.postgres;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * JSON texts that jsonb refuses: with U+0000 or a lone surrogate in a string. They are stored as one marked member,
 * {@code {"$base64": "..."}}, with the UTF-8 of the text (WTF-8 for raw surrogates). A value that has this member
 * itself is stored so as well. The reader is strict, because such a text must still be JSON.
 */
final class Json {
    private static final String MARK = "$base64";
    private static final Pattern MARKED = Pattern.compile("\\{\\s*\"\\$base64\"\\s*:\\s*\"([A-Za-z0-9+/=]*)\"\\s*\\}");

    private final String text;
    private int at;
    private boolean refused; // by jsonb

    private Json(String text) {
        this.text = text;
    }

    /** Maps, lists, strings, doubles, booleans and nulls. IllegalArgumentException: this is no JSON. */
    static Object parse(String text) {
        return new Json(text).document();
    }

    /** The text as jsonb takes it. Text that is no JSON is returned as it is, for the server to refuse. */
    static String stored(String text) {
        if (text == null) return null;
        Json reader = new Json(text);
        try {
            Object value = reader.document();
            boolean marked = value instanceof Map && ((Map<?, ?>) value).keySet().equals(java.util.Set.of(MARK));
            return marked || reader.refused ? "{\"" + MARK + "\": \"" + Base64.getEncoder().encodeToString(wtf8(text)) + "\"}" : text;
        } catch (IllegalArgumentException error) {
            return text;
        }
    }

    /** The text that was stored. */
    static String restored(String text) {
        Matcher matcher = MARKED.matcher(text == null ? "" : text);
        return matcher.matches() ? fromWtf8(Base64.getDecoder().decode(matcher.group(1))) : text;
    }

    private Object document() {
        Object value = value(0);
        space();
        if (at < text.length()) throw error();
        return value;
    }

    private Object value(int depth) {
        if (depth > 1000) throw error();
        space();
        if (take('{')) return object(depth);
        if (take('[')) return array(depth);
        if (take('"')) return string();
        if (word("true")) return true;
        if (word("false")) return false;
        if (word("null")) return null;
        Matcher number = Pattern.compile("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][-+]?[0-9]+)?").matcher(text).region(at, text.length());
        if (!number.lookingAt()) throw error();
        at = number.end();
        return Double.valueOf(number.group());
    }

    private Map<String, Object> object(int depth) {
        Map<String, Object> members = new LinkedHashMap<>();
        space();
        if (take('}')) return members;
        do {
            space();
            require('"');
            String name = string();
            space();
            require(':');
            members.put(name, value(depth + 1));
            space();
        } while (take(','));
        require('}');
        return members;
    }

    private List<Object> array(int depth) {
        List<Object> elements = new ArrayList<>();
        space();
        if (take(']')) return elements;
        do {
            elements.add(value(depth + 1));
            space();
        } while (take(','));
        require(']');
        return elements;
    }

    private String string() {
        StringBuilder string = new StringBuilder();
        while (!take('"')) {
            char c = next();
            if (c < ' ') throw error();
            string.append(c == '\\' ? escaped() : c);
        }
        for (int i = 0; i < string.length(); i++) {
            int point = string.codePointAt(i);
            refused |= point == 0 || point >= Character.MIN_SURROGATE && point <= Character.MAX_SURROGATE;
            if (Character.isSupplementaryCodePoint(point)) i++;
        }
        return string.toString();
    }

    private char escaped() {
        char c = next();
        int plain = "\"\\/bfnrt".indexOf(c);
        if (plain >= 0) return "\"\\/\b\f\n\r\t".charAt(plain);
        if (c != 'u' || at + 4 > text.length()) throw error();
        String digits = text.substring(at, at += 4);
        if (!digits.matches("[0-9a-fA-F]{4}")) throw error();
        return (char) Integer.parseInt(digits, 16);
    }

    private void space() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++;
    }

    private char next() {
        if (at == text.length()) throw error();
        return text.charAt(at++);
    }

    private boolean take(char c) {
        boolean found = at < text.length() && text.charAt(at) == c;
        if (found) at++;
        return found;
    }

    private boolean word(String word) {
        boolean found = text.startsWith(word, at);
        if (found) at += word.length();
        return found;
    }

    private void require(char c) {
        if (!take(c)) throw error();
    }

    private IllegalArgumentException error() {
        return new IllegalArgumentException("no JSON at character " + at);
    }

    /** UTF-8, in which a lone surrogate is three bytes. */
    private static byte[] wtf8(String text) {
        ByteBuffer bytes = ByteBuffer.allocate(text.length() * 3);
        text.codePoints().forEach(point -> {
            if (point >= Character.MIN_SURROGATE && point <= Character.MAX_SURROGATE)
                bytes.put((byte) (0xE0 | point >> 12)).put((byte) (0x80 | point >> 6 & 0x3F)).put((byte) (0x80 | point & 0x3F));
            else
                bytes.put(Character.toString(point).getBytes(StandardCharsets.UTF_8));
        });
        return java.util.Arrays.copyOf(bytes.array(), bytes.position());
    }

    private static String fromWtf8(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        int plain = 0; // the beginning of what is UTF-8
        for (int i = 0; i + 2 < bytes.length; i++) {
            if ((bytes[i] & 0xFF) != 0xED || (bytes[i + 1] & 0xFF) < 0xA0) continue;
            text.append(new String(bytes, plain, i - plain, StandardCharsets.UTF_8));
            text.append((char) (0xD000 | (bytes[i + 1] & 0x3F) << 6 | bytes[i + 2] & 0x3F));
            plain = i + 3;
        }
        return text.append(new String(bytes, plain, bytes.length - plain, StandardCharsets.UTF_8)).toString();
    }
}
