// Runs a fuzz target once for every file of the given directories, each of them cut short everywhere as well: what a compiler
// without libFuzzer can do, and what `make check` does.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

namespace {

std::vector<std::uint8_t> contents(const std::filesystem::path &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// The copies are as long as the input, so that AddressSanitizer sees a step beyond it.
void replay(const std::vector<std::uint8_t> &seed) {
    for (std::size_t size = 0; size <= seed.size(); size++) {
        const std::vector<std::uint8_t> input(seed.begin(), seed.begin() + static_cast<std::ptrdiff_t>(size));
        LLVMFuzzerTestOneInput(input.data(), input.size());
    }
}

} // namespace

int main(int argc, char **argv) try {
    int seeds = 0;
    for (int i = 1; i < argc; i++)
        for (const auto &entry : std::filesystem::directory_iterator(argv[i])) {
            std::fprintf(stderr, "%s\n", entry.path().c_str());
            replay(contents(entry.path()));
            seeds++;
        }
    std::printf("%d seeds\n", seeds);
    return seeds > 0 ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
