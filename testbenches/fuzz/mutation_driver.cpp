// Runs a fuzzer without libFuzzer: seeds from a folder, then mutations of them, the same ones every time.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <systemc>

#include "support/random.h"

int sc_main(int, char**) { return 0; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void try_input(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

std::string mutate(std::string text, const std::vector<std::string>& seeds, heddle::test::Random& random) {
  static const std::vector<std::string> kWords = {"-1",       "0",   "18446744073709551616",
                                                  "1e400",    "nan", "{",
                                                  "}",        "[",   "]",
                                                  "\"",       ":",   "null",
                                                  "\xff\xfe", "\n",  "  ",
                                                  "&a",       "*a",  "<<",
                                                  "true"};
  const auto below = [&random](std::size_t n) { return n == 0 ? 0 : std::size_t{random.below(n)}; };
  for (std::size_t i = 1 + below(6); i > 0; --i) {
    const std::size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random.below(256));
        break;
      case 1:
        text.erase(at, below(20));
        break;
      case 2:
        text.insert(at, kWords[below(kWords.size())]);
        break;
      case 3:
        text.resize(at);
        break;
      case 4:
        text.insert(at, text.substr(below(text.size() + 1), below(60)));
        break;
      default: {
        const std::string& other = seeds[below(seeds.size())];
        text.insert(at, other.substr(below(other.size() + 1), below(60)));
        break;
      }
    }
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: FUZZER ROUNDS SEED-FOLDER\n", stderr);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[2])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> seeds;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  if (seeds.empty()) {
    std::fputs("the seed folder is empty\n", stderr);
    return 2;
  }
  for (const std::string& seed : seeds) try_input(seed);
  heddle::test::Random random(20240701);
  const long rounds = std::strtol(argv[1], nullptr, 10);
  for (long i = 0; i < rounds; ++i) try_input(mutate(seeds[static_cast<std::size_t>(i) % seeds.size()], seeds, random));
  std::printf("%ld mutations of %zu seeds\n", rounds, seeds.size());
  return 0;
}
