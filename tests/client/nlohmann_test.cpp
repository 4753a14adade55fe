// The adaptor for nlohmann::json, if that library is installed.
#if __has_include(<nlohmann/json.hpp>)

#include <gtest/gtest.h>

#include <idem/nlohmann.hpp>
#include <idem/once.hpp>
#include <idem/rows.hpp>

#include "scratch.hpp"

namespace {

using nlohmann::json;

const json kBody = {{"a", {1, 2.5, nullptr, "it's \"odd\"\\\n\xC3\xA9"}}, {"b", {{"c", true}}}};

TEST(Nlohmann, ResponseThereAndBack) {
    idem::client db = test::make_client();
    const std::string key = test::unique_key();
    const auto run = [&] { return idem::once(db, idem::request{key}, [](idem::transaction &) { return kBody; }); };
    EXPECT_EQ(idem::parsed(run()), kBody);
    EXPECT_EQ(idem::parsed(run()), kBody);
    const std::string text = test::unique_key();
    EXPECT_EQ(idem::parsed(idem::once(db, idem::request{text}, [](idem::transaction &) { return json("just text"); })),
              json("just text"));
    const std::string nothing = test::unique_key();
    EXPECT_EQ(idem::parsed(idem::once(db, idem::request{nothing}, [](idem::transaction &) {})), json());
    const std::string status = test::unique_key();
    EXPECT_EQ(
        idem::once(db, idem::request{status}, [](idem::transaction &) { return idem::json_response(201, kBody); }).status_code,
        201);
}

TEST(Nlohmann, RowsAndChanges) {
    idem::client db = test::make_client();
    const test::scratch rows;
    const json key = {{"id", 1}};
    const idem::row_result done = idem::optimistic(db, rows.table(), idem::json_text(key.dump()), [](const std::string &row) {
        return idem::json_text(json{{"quantity", idem::parsed(row).at("quantity").get<int>() + 1}}.dump());
    });
    EXPECT_EQ(idem::parsed(done.row).at("quantity"), 2);
    EXPECT_EQ(rows.value_of("quantity", 1), "2");
}

} // namespace

#endif
