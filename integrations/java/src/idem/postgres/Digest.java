package idem.postgres;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** SHA-256. */
final class Digest {
    private Digest() {}

    static byte[] of(byte[] bytes) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(bytes);
        } catch (NoSuchAlgorithmException error) {
            throw new AssertionError(error); // each Java has it
        }
    }

    static String hexadecimal(byte[] bytes) {
        StringBuilder digits = new StringBuilder();
        for (byte b : of(bytes)) digits.append(String.format("%02x", b));
        return digits.toString();
    }
}
