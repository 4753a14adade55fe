// The contenders' files are written for pgbench; to a driver their only parameter, :key or :keys, is $1.
#pragma once

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace bench {

inline std::string statement_from(const std::string &path) {
    std::ifstream file(path);
    if (!file)
        throw std::runtime_error("could not read " + path);
    std::ostringstream text;
    text << file.rdbuf();
    std::string statement = text.str();
    for (const std::string name : {":keys", ":key"})
        if (const auto at = statement.find(name); at != std::string::npos)
            return statement.replace(at, name.size(), "$1");
    throw std::runtime_error(path + " has no :key and no :keys");
}

} // namespace bench
