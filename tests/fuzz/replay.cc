// Runs a fuzz target without a fuzzer: over each seed in the folders given, each prefix of it, and a few hundred
// changes, the same in every run. With a target's own mutator these go as deep as the fuzzer's.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// Null for targets that leave changes to the fuzzer.
extern "C" __attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                                                unsigned int seed);

namespace {

std::mt19937_64 random_bits(1);

}  // namespace

// What libFuzzer gives to mutators: one small change in place; the new size.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) {
  if (size == 0) return 0;
  const size_t position = random_bits() % size;
  switch (random_bits() % 4) {
    case 0:
      data[position] = static_cast<uint8_t>(data[position] ^ (1u << (random_bits() % 8)));
      return size;
    case 1:
      data[position] = static_cast<uint8_t>(random_bits() % 2 == 0 ? 0xff : random_bits());
      return size;
    case 2:  // a byte less
      std::copy(data + position + 1, data + size, data + position);
      return size - 1;
    default:  // a byte twice
      if (size == max_size) return size;
      std::copy_backward(data + position, data + size, data + size + 1);
      return size + 1;
  }
}

namespace {

void RunOne(const std::string& input) {
  // In memory of its own, exactly as large, so that a sanitizer sees what reads past it.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::string Mutated(const std::string& seed) {
  constexpr size_t kRoom = 64;
  std::vector<uint8_t> bytes(seed.begin(), seed.end());
  size_t size = bytes.size();
  bytes.resize(size + kRoom);
  for (uint64_t changes = 1 + random_bits() % 3; changes > 0; --changes) {
    size = LLVMFuzzerCustomMutator != nullptr
               ? LLVMFuzzerCustomMutator(bytes.data(), size, bytes.size(), static_cast<unsigned int>(random_bits()))
               : LLVMFuzzerMutate(bytes.data(), size, bytes.size());
  }
  return std::string(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> paths;
  for (int i = 1; i < argc; ++i) paths.emplace_back(argv[i]);
  std::sort(paths.begin(), paths.end());
  size_t runs = 0;
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    if (!file.good()) {
      std::fprintf(stderr, "cannot read %s\n", path.c_str());
      return 1;
    }
    const std::string seed((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    RunOne(seed);
    for (size_t size = 0; size < seed.size(); ++size) RunOne(seed.substr(0, size));
    for (int i = 0; i < 300; ++i) RunOne(Mutated(seed));
    runs += seed.size() + 301;
  }
  std::printf("%zu inputs from %zu seeds\n", runs, paths.size());
  return paths.empty() ? 1 : 0;
}
