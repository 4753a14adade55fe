#include "core/composite_key.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace idem::core {
namespace {

std::string join(const std::vector<std::string> &parts) {
    CompositeKey key;
    for (const auto &part : parts)
        key.append(part);
    return std::move(key).take();
}

TEST(CompositeKey, IsReadable) { EXPECT_EQ(join({"order", "42"}), "order:42"); }

TEST(CompositeKey, EscapesSeparatorAndEscape) { EXPECT_EQ(join({"a:b", "c\\"}), "a\\:b:c\\\\"); }

TEST(CompositeKey, KeepsEmptyPartsApart) {
    EXPECT_NE(join({"", "a"}), join({"a", ""}));
    EXPECT_NE(join({"", ""}), join({""}));
}

// Every list of up to three parts over an alphabet that contains both special characters: no two give the same key.
TEST(CompositeKey, DifferentListsGiveDifferentKeys) {
    std::vector<std::string> parts{""};
    for (std::size_t i = 0; i < parts.size(); i++)
        if (parts[i].size() < 2)
            for (char c : {'a', ':', '\\'})
                parts.push_back(parts[i] + c);
    std::vector<std::vector<std::string>> lists;
    for (const auto &a : parts) {
        lists.push_back({a});
        for (const auto &b : parts) {
            lists.push_back({a, b});
            for (const auto &c : parts)
                lists.push_back({a, b, c});
        }
    }
    std::map<std::string, std::vector<std::string>> seen;
    for (const auto &list : lists)
        ASSERT_TRUE(seen.emplace(join(list), list).second) << join(list);
}

} // namespace
} // namespace idem::core
