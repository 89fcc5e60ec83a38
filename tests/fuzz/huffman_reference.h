// Planes of prefix codes, read as FORMAT.md section 3.1 says, bit by bit: for tests of what reads them fast.

#ifndef TENSORCASK_TESTS_FUZZ_HUFFMAN_REFERENCE_H_
#define TENSORCASK_TESTS_FUZZ_HUFFMAN_REFERENCE_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorcask::testing {

// Nothing if `coded` is to be rejected.
std::optional<std::string> DecodeHuffmanByTheBook(absl::string_view coded, size_t plane_bytes);

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_FUZZ_HUFFMAN_REFERENCE_H_
