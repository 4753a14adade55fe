// What applications can reach: the library's own types are no part of its public classes.
#include <gtest/gtest.h>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <idem/idem.hpp>

namespace {

namespace detail = idem::detail;

template <typename, typename = void> struct has_state : std::false_type {};
template <typename T> struct has_state<T, std::void_t<decltype(std::declval<T &>().state())>> : std::true_type {};
template <typename, typename = void> struct has_call : std::false_type {};
template <typename T>
struct has_call<T, std::void_t<decltype(std::declval<T &>().call(std::declval<const detail::command &>()))>> : std::true_type {
};
template <typename, typename = void> struct has_opening : std::false_type {};
template <typename T> struct has_opening<T, std::void_t<decltype(std::declval<T &>().opening())>> : std::true_type {};
template <typename, typename = void> struct has_finish : std::false_type {};
template <typename T> struct has_finish<T, std::void_t<decltype(std::declval<T &>().finish())>> : std::true_type {};

TEST(Surface, TheLibrarysOwnTypesAreNotInIt) {
    EXPECT_FALSE(has_state<idem::client>::value);
    EXPECT_FALSE(has_call<const idem::target>::value);
    EXPECT_FALSE(has_call<idem::transaction>::value);
    EXPECT_FALSE(has_opening<idem::transaction>::value);
    EXPECT_FALSE(has_finish<idem::transaction>::value);
    EXPECT_FALSE(
        (std::is_constructible_v<idem::transaction, idem::client &, idem::isolation, const std::vector<detail::command> &>));
    EXPECT_FALSE((std::is_constructible_v<idem::stop_token, std::shared_ptr<detail::stop_state>>));
    EXPECT_TRUE((std::is_base_of_v<idem::managed_transaction, idem::transaction>));
}

} // namespace
