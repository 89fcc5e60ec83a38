// A plane of Huffman codes, from a stranger or changed in a few places: the decoder and a reference decoder both read
// it, with the same result, or both refuse it. What the encoder writes of any plane comes back.
//
// Is to reach what input can reach of these files:
//   serialize/payload/codec/huffman*

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/payload/codec/huffman_decoder.h"
#include "tensorcask/serialize/payload/codec/huffman_encoder.h"
#include "tensorcask/serialize/payload/codec/huffman_plan.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"
#include "tensorcask/tests/fuzz/huffman_reference.h"

namespace tensorcask::payload {
namespace {

using testing::FuzzInput;

// With a plan of the planner, or with `tables` for its units.
std::string Encode(absl::string_view plane, absl::string_view tables) {
  HuffmanPlanner planner;
  const absl::StatusOr<const HuffmanPlan*> own = planner.Plan(plane);
  FUZZ_CHECK(own.ok(), own.status().ToString());
  const HuffmanPlan plan = tables.empty() ? **own : testing::PlanByHand(plane, tables);
  std::vector<char> out(plan.bytes);  // exactly its size, as for all blocks here
  const absl::StatusOr<size_t> size = HuffmanEncoder().Encode(plane, plan, out.data());
  FUZZ_CHECK(size.ok() && *size <= out.size(), "more than the plan said");
  return std::string(out.data(), *size);
}

std::optional<std::string> Decode(absl::string_view coded, size_t plane_bytes) {
  const std::vector<char> bytes(coded.begin(), coded.end());
  std::vector<char> out(plane_bytes);
  const absl::Status status =
      HuffmanDecoder().Decode(absl::string_view(bytes.data(), bytes.size()), absl::MakeSpan(out));
  if (!status.ok()) return std::nullopt;
  return std::string(out.begin(), out.end());
}

void Compare(absl::string_view coded, size_t plane_bytes) {
  FUZZ_CHECK(Decode(coded, plane_bytes) == testing::DecodeHuffmanByTheBook(coded, plane_bytes), "not as by the book");
}

// Some bytes, again and again, each time a little further on.
std::string PlaneOf(FuzzInput* input) {
  const auto repeats = static_cast<size_t>(input->Int(1, 40));
  const auto step = static_cast<int>(input->Int(0, 3));
  const absl::string_view bytes = input->Rest();
  std::string plane;
  for (size_t i = 0; i < repeats && plane.size() < 8192; ++i) {
    for (const char byte : bytes) plane += static_cast<char>(byte + step * static_cast<int>(i / 8));
  }
  return plane.empty() ? "x" : plane;
}

}  // namespace
}  // namespace tensorcask::payload

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace payload = tensorcask::payload;
  tensorcask::testing::FuzzInput input(data, size);
  if (input.Int(0, 1) == 0) {
    const size_t plane_bytes = 1 + input.Bits(2) % 4096;
    payload::Compare(input.Rest(), plane_bytes);
    return 0;
  }
  const uint64_t changes = input.Bits(1) % 4;
  const uint64_t places = input.Bits(8);
  const absl::string_view tables = input.Bytes(static_cast<size_t>(input.Int(0, 9)));
  const std::string plane = payload::PlaneOf(&input);
  std::string coded = payload::Encode(plane, tables);
  FUZZ_CHECK(payload::Decode(coded, plane.size()) == plane, "the plane differs");
  // The first bytes are where most can go wrong.
  for (uint64_t i = 0; i < changes; ++i) {
    const uint64_t place = places >> (20 * i) & 0xfffff;
    const size_t within = (place & 8) != 0 ? coded.size() : std::min<size_t>(coded.size(), 80);
    coded[(place >> 4) % within] ^= static_cast<char>(1 << (place & 7));
  }
  if (changes != 0) payload::Compare(coded, plane.size());
  return 0;
}
