// idem-chaos-check FILE [SECONDS]: judges a history that a chaos run has kept. SECONDS bound the search of one key.
// Exit status: 0 clean, 1 violations, 2 the file cannot be read.
#include <exception>
#include <fstream>
#include <iostream>
#include <string>

#include "check.hpp"

int main(int argc, char **argv) {
    if (argc != 2 && argc != 3) {
        std::cerr << "usage: idem-chaos-check FILE [SECONDS]\n";
        return 2;
    }
    try {
        std::ifstream in(argv[1]);
        if (!in) {
            std::cerr << argv[1] << ": cannot be opened\n";
            return 2;
        }
        chaos::Limits limits;
        if (argc == 3)
            limits.search = std::chrono::seconds(std::stol(argv[2]));
        const auto report = chaos::check(chaos::read(in), limits);
        chaos::print(std::cout, report);
        return report.clean() ? 0 : 1;
    } catch (const std::exception &error) {
        std::cerr << argv[1] << ": " << error.what() << '\n';
        return 2;
    }
}
