// What is installed.
#include <gtest/gtest.h>

#include <idem/transact.hpp>
#include <idem/version.hpp>

#include "server.hpp"

namespace {

TEST(Version, IsThatOfTheExtensionAndOfTheServer) {
    idem::client db = test::make_client();
    const idem::version_info known = version(db);
    EXPECT_EQ(known.edition, "c");
    EXPECT_EQ(known.version, test::ask("SELECT extversion FROM pg_extension WHERE extname = 'idem'"));
    EXPECT_EQ(known.server, test::ask("SHOW server_version"));
    idem::transact(db, [&](idem::transaction &tx) { EXPECT_EQ(version(tx).server, known.server); });
}

} // namespace
