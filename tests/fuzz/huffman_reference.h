// Planes of Huffman codes, read as FORMAT.md section 3.1 says, bit by bit: for tests of what reads them fast. And plans
// for small planes, with as many tables as one likes.

#ifndef TENSORCASK_TESTS_FUZZ_HUFFMAN_REFERENCE_H_
#define TENSORCASK_TESTS_FUZZ_HUFFMAN_REFERENCE_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/payload/codec/huffman_plan.h"

namespace tensorcask::testing {

// Nothing if `coded` is to be rejected.
std::optional<std::string> DecodeHuffmanByTheBook(absl::string_view coded, size_t plane_bytes);

// A plan with units of 256 bytes, of which unit i has table tables[i % tables.size()] % 16. Requires: both not empty.
payload::HuffmanPlan PlanByHand(absl::string_view plane, absl::string_view tables);

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_FUZZ_HUFFMAN_REFERENCE_H_
