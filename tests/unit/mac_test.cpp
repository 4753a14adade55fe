#include "core/mac.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace idem::core {
namespace {

Mac counting() {
    Mac mac;
    for (std::size_t i = 0; i < mac.size(); i++)
        mac[i] = static_cast<std::uint8_t>(i * 7 + 1);
    return mac;
}

std::optional<std::string> decoded(std::string_view text, std::size_t capacity = 100) {
    std::vector<std::uint8_t> out(capacity);
    const auto size = read_base64(text, out.data(), capacity);
    if (!size)
        return std::nullopt;
    return std::string(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(*size));
}

TEST(Mac, DiffersByAnyBit) {
    const Mac mac = counting();
    EXPECT_TRUE(same_mac(mac, mac));
    for (int bit = 0; bit < kMacBytes * 8; bit++) {
        Mac other = mac;
        other[bit / 8] ^= 1 << bit % 8;
        EXPECT_FALSE(same_mac(mac, other)) << bit;
        EXPECT_FALSE(same_mac(other, mac)) << bit;
    }
}

TEST(Mac, HexadecimalDigitsOfEitherCase) {
    std::string text;
    for (const std::uint8_t byte : counting())
        text.append({"0123456789abcdef"[byte >> 4], "0123456789ABCDEF"[byte & 15]});
    Mac mac;
    ASSERT_TRUE(read_hex_mac(text, &mac));
    EXPECT_EQ(mac, counting());
    for (const std::string &bad : {std::string(), text.substr(1), text + "0", text.substr(2), "g" + text.substr(1),
                                   text.substr(1) + " ", std::string(64, '\0'), std::string(64, '\xff')})
        EXPECT_FALSE(read_hex_mac(bad, &mac)) << bad;
}

TEST(Mac, Base64OfThirtyTwoBytesOnly) {
    Mac mac;
    EXPECT_TRUE(read_base64_mac(std::string(43, 'A') + "=", &mac));
    EXPECT_TRUE(read_base64_mac(std::string(43, 'A'), &mac));
    for (const std::string &bad : {std::string(), std::string(42, 'A'), std::string(44, 'A'),
                                   std::string(42, 'A') + "==", std::string(43, 'A') + "==", std::string(1000000, 'A')})
        EXPECT_FALSE(read_base64_mac(bad, &mac)) << bad.size();
}

TEST(Base64, PaddedOrNot) {
    EXPECT_EQ(decoded(""), "");
    EXPECT_EQ(decoded("Zg=="), "f");
    EXPECT_EQ(decoded("Zg"), "f");
    EXPECT_EQ(decoded("Zm8="), "fo");
    EXPECT_EQ(decoded("Zm8"), "fo");
    EXPECT_EQ(decoded("Zm9v"), "foo");
    EXPECT_EQ(decoded("Zm9vYmFy"), "foobar");
    EXPECT_EQ(decoded("+/+/"), "\xfb\xff\xbf");
    EXPECT_EQ(decoded("Zh"), "f") << "bits that are left over";
}

TEST(Base64, RejectsWhatIsNone) {
    for (const char *bad :
         {"Z", "Zg=", "Zg===", "Zm9v=", "Zm9v====", "=", "====", "Zm 9v", "Zm9v\n", "Zm-_", "Z\xc3\xa9oo", "=Zg="})
        EXPECT_EQ(decoded(bad), std::nullopt) << bad;
    EXPECT_EQ(decoded("Zm9vYmFy", 6), "foobar");
    EXPECT_EQ(decoded("Zm9vYmFy", 5), std::nullopt) << "no room";
}

} // namespace
} // namespace idem::core
