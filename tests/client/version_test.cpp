// What is installed.
#include <gtest/gtest.h>

#include <idem/error.hpp>
#include <idem/statement.hpp>
#include <idem/transact.hpp>
#include <idem/version.hpp>

#include "server.hpp"

namespace {

TEST(Version, IsThatOfTheExtensionAndOfTheServer) {
    idem::client db = test::make_client();
    const idem::version_info known = version(db);
    // The portable edition is no extension.
    const std::string installed = test::ask("SELECT extversion FROM pg_extension WHERE extname = 'idem'");
    EXPECT_EQ(known.edition, installed.empty() ? "portable" : "c");
    EXPECT_EQ(known.edition, test::edition());
    EXPECT_EQ(known.version, installed.empty() ? test::ask("SELECT version FROM idem.idem_version()") : installed);
    EXPECT_EQ(known.server, test::ask("SHOW server_version"));
    idem::transact(db, [&](idem::transaction &tx) { EXPECT_EQ(version(tx).server, known.server); });
}

std::string likeness(const std::string &schema) {
    return "CREATE FUNCTION " + schema +
           ".idem_version(OUT edition text, OUT version text, OUT server text) LANGUAGE sql AS "
           "$$SELECT 'portable', '0', '0'$$";
}

// Without an extension, the schema is the one that has the portable edition; the role that owns its functions owns it.
TEST(Version, PortableEditionIsFoundInTheSchemaOfItsOwner) {
    const std::string name = "client_portable_" + idem::detail::make_nonce().substr(0, 8), stranger = name + "_stranger";
    test::ask("CREATE DATABASE " + name + " TEMPLATE template0");
    test::ask("CREATE ROLE " + stranger + " LOGIN");
    {
        idem::client_options options;
        options.dsn = "dbname=" + name;
        const std::string &at = options.dsn;
        const auto schema = [&] { return test::make_client(options).schema(); };
        const auto edition = [&] {
            idem::client db = test::make_client(options);
            return version(db).edition;
        };
        test::ask("CREATE SCHEMA planted; GRANT ALL ON SCHEMA planted TO " + stranger +
                      "; CREATE SCHEMA \"Odd one\"; CREATE SCHEMA two;"
                      "CREATE FUNCTION two.idem_version() RETURNS int LANGUAGE sql AS 'SELECT 1'",
                  {}, at);
        test::ask(likeness("planted"), {}, at + " user=" + stranger);
        EXPECT_THROW(schema(), idem::not_installed);
        // The superuser owns the temporary schemas of all roles.
        pqxx::connection other(at);
        pqxx::nontransaction(other).exec(likeness("pg_temp"));
        EXPECT_THROW(schema(), idem::not_installed);
        test::ask(likeness("\"Odd one\""), {}, at);
        EXPECT_EQ(schema(), "\"Odd one\"");
        EXPECT_EQ(edition(), "portable");
        test::ask("DROP FUNCTION two.idem_version();" + likeness("two"), {}, at);
        EXPECT_THROW(schema(), idem::bad_input);
        options.schema = "two";
        EXPECT_EQ(edition(), "portable");
    }
    test::ask("DROP DATABASE " + name + " WITH (FORCE)");
    test::ask("DROP ROLE " + stranger);
}

} // namespace
