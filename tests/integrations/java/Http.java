import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** A client that repeats nothing by itself, and shows the bytes of an answer. One connection per request. */
final class Http {
    final int status;
    final Map<String, List<String>> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    final byte[] body;

    private Http(byte[] answer) throws IOException {
        int end = 0;
        while (end + 3 < answer.length && !(answer[end] == '\r' && answer[end + 1] == '\n' && answer[end + 2] == '\r'
            && answer[end + 3] == '\n')) end++;
        if (end + 3 >= answer.length) throw new EOFException("the answer was cut");
        String[] lines = new String(answer, 0, end, StandardCharsets.ISO_8859_1).split("\r\n");
        status = Integer.parseInt(lines[0].split(" ")[1]);
        for (String line : Arrays.asList(lines).subList(1, lines.length)) {
            int colon = line.indexOf(':');
            headers.computeIfAbsent(line.substring(0, colon), name -> new ArrayList<>()).add(line.substring(colon + 1).trim());
        }
        byte[] rest = Arrays.copyOfRange(answer, end + 4, answer.length);
        body = "chunked".equals(header("Transfer-Encoding")) ? joined(rest) : rest;
        if (headers.containsKey("Content-Length")
            && Integer.parseInt(header("Content-Length")) != body.length) throw new EOFException("the body was cut");
    }

    /** The data of the chunks. */
    private static byte[] joined(byte[] chunks) throws IOException {
        String text = new String(chunks, StandardCharsets.ISO_8859_1);
        StringBuilder data = new StringBuilder();
        for (int at = 0;;) {
            int line = text.indexOf("\r\n", at);
            if (line < 0) throw new EOFException("the chunks were cut");
            int size = Integer.parseInt(text.substring(at, line), 16);
            if (size == 0) return data.toString().getBytes(StandardCharsets.ISO_8859_1);
            at = line + 2 + size + 2;
            if (at > text.length()) throw new EOFException("a chunk was cut");
            data.append(text, line + 2, at - 2);
        }
    }

    String header(String name) {
        return headers.containsKey(name) ? headers.get(name).get(0) : null;
    }

    String text() {
        return new String(body, StandardCharsets.UTF_8);
    }

    /** What a repetition must bring again, byte for byte. */
    String stored() {
        StringBuilder text = new StringBuilder().append(status).append('\n');
        for (String name : List.of("Content-Type", "Content-Encoding", "Location", "ETag",
            "Link")) text.append(name).append(": ").append(headers.get(name)).append('\n');
        return text + new String(body, StandardCharsets.ISO_8859_1);
    }

    /** Headers as "name: value". */
    static Http send(int port, String method, String target, byte[] body, String... headers) throws IOException {
        try (Socket socket = write(port, method, target, body, headers)) {
            ByteArrayOutputStream answer = new ByteArrayOutputStream();
            socket.getInputStream().transferTo(answer);
            return new Http(answer.toByteArray());
        }
    }

    /** Hangs up without waiting for the answer. */
    static void cut(int port, String method, String target, byte[] body, String... headers) throws IOException {
        write(port, method, target, body, headers).close();
    }

    private static Socket write(int port, String method, String target, byte[] body, String... headers) throws IOException {
        Socket socket = new Socket();
        try {
            socket.setSoTimeout(300_000);
            socket.connect(new InetSocketAddress("127.0.0.1", port), 60_000);
            ByteArrayOutputStream request = new ByteArrayOutputStream();
            request.write((method + " " + target + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: "
                + body.length + "\r\n").getBytes(StandardCharsets.UTF_8));
            for (String header : headers) request.write((header + "\r\n").getBytes(StandardCharsets.UTF_8));
            request.write("\r\n".getBytes(StandardCharsets.UTF_8));
            request.write(body);
            socket.getOutputStream().write(request.toByteArray());
            socket.getOutputStream().flush();
            return socket;
        } catch (IOException error) {
            socket.close();
            throw error;
        }
    }
}
