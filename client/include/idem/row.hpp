// Columns and their values, for keys, conditions, changes and new rows of the flows on rows (idem/rows.hpp, idem/machines.hpp).
//
//     idem::row{{"id", 7}, {"note", text}, {"paid_at", std::nullopt}, {"tags", idem::json_text{R"(["a", "b"])"}}}
//
// Values are copied. A parameter of this type also takes the braces alone: idem::unique_insert(db, "orders", {{"id", 7}}).
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <idem/standard.hpp>

namespace idem {

/// Text that is JSON already, for example from a JSON library. The server checks it: it throws bad_input if it is not JSON.
struct json_text {
    explicit json_text(std::string json) : text(std::move(json)) {}

    std::string text;
};

/// The value of a column, as JSON. Implicitly constructed from
///
///  - bool, and numbers of any integral or floating-point type. A floating-point number has the fewest digits that restore it.
///    Throws bad_input (22023) for infinity and NaN, which JSON lacks. For exact decimals pass a string, which the server
///    converts to the type of the column;
///  - strings in the client's encoding; they are escaped;
///  - std::nullopt and nullptr, which are SQL's NULL, and std::optional of all these types;
///  - json_text, which is used as it is: an array or an object for a column of type jsonb.
///
/// Not from char, which may be a number or text.
class column_value {
  public:
    column_value(std::nullopt_t) : json_("null") {}
    column_value(std::nullptr_t) : json_("null") {}
    column_value(json_text value) : json_(std::move(value.text)) {}
    template <typename T, std::enable_if_t<std::is_same_v<T, bool>, int> = 0> // not from pointers
    column_value(T value) : json_(value ? "true" : "false") {}
    template <typename T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
    column_value(T value) : json_(std::to_string(value)) {
        static_assert(sizeof(T) <= sizeof(long long));
        static_assert(!std::is_same_v<T, char> && !std::is_same_v<T, wchar_t> && !std::is_same_v<T, char16_t> &&
                          !std::is_same_v<T, char32_t>,
                      "a character may be a number or text: convert it to int or std::string");
    }
    template <typename T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
    column_value(T value) : json_(number(value)) {}
    template <typename T, std::enable_if_t<std::is_convertible_v<const T &, std::string_view>, int> = 0>
    column_value(const T &value) : json_(quoted(value)) {}
    template <typename T>
    column_value(const std::optional<T> &value) : column_value(value ? column_value(*value) : column_value(std::nullopt)) {}

    const std::string &json() const &noexcept { return json_; }
    std::string json() &&noexcept { return std::move(json_); }

  private:
    static std::string quoted(std::string_view text);
    static std::string number(float value);
    static std::string number(double value);
    static std::string number(long double value);

    std::string json_;
};

/// A set of columns with values. The order does not matter; of several values for one column the last one counts.
class row {
  public:
    struct column {
        std::string name; ///< as in the catalog: without quotes, case-sensitive
        column_value value;
    };

    /// No columns.
    row() = default;
    row(std::initializer_list<column> columns);
    /// A JSON object of columns.
    row(json_text object) : json_(std::move(object.text)) {}

    /// Adds a column. REQUIRES: the row was not made from json_text.
    row &set(std::string_view name, const column_value &value) &;
    row set(std::string_view name, const column_value &value) && {
        set(name, value);
        return std::move(*this);
    }

    const std::string &json() const &noexcept { return json_; }
    std::string json() &&noexcept { return std::move(json_); }

  private:
    std::string json_ = "{}";
};

} // namespace idem
