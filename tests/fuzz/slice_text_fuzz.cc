// Lines of text as slices: what a line parses to prints as the same slice, and the operations on two slices agree with
// each other.
//
// Is to reach what input can reach of these files:
//   tensor/slice.cc
//   tensor/slice_set.cc

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/slice_set.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask::testing {
namespace {

void CheckPair(const TensorSlice& a, const TensorSlice& b) {
  const std::optional<TensorSlice> common = a.Intersect(b);
  FUZZ_CHECK(common == b.Intersect(a), "Intersect depends on the order");
  FUZZ_CHECK(common.has_value() == a.Overlaps(b), "Overlaps disagrees");
  if (a.rank() != b.rank()) return;
  TensorSlice cover = a;
  cover.UpdateToCover(b);
  FUZZ_CHECK(a.ComputeRelative(cover).ok() && b.ComputeRelative(cover).ok(), "the cover does not cover");
  if (common.has_value()) FUZZ_CHECK(common->Intersect(cover) == common, "what is common is not in the cover");
}

// Registers all that fits a small shape; what is in the set can be found, what overlaps it is refused.
void CheckSet(const std::vector<TensorSlice>& slices) {
  const TensorShape shape = *TensorShape::Create(std::vector<int64_t>(static_cast<size_t>(slices[0].rank()), 16));
  TensorSliceSet set(DType::kInt8, shape);
  for (const TensorSlice& slice : slices) {
    const bool overlaps = std::any_of(set.parts().begin(), set.parts().end(),
                                      [&](const TensorSliceSet::Part& part) { return part.slice.Overlaps(slice); });
    const bool taken = set.Register(slice, "").ok();
    FUZZ_CHECK(taken == (!overlaps && slice.Apply(shape).ok()), slice.ToString());
  }
  for (const TensorSliceSet::Part& part : set.parts()) {
    const absl::StatusOr<std::vector<TensorSliceSet::Part>> found = set.Query(part.slice);
    FUZZ_CHECK(found.ok() && found->size() == 1 && (*found)[0].slice == part.slice, part.slice.ToString());
  }
}

}  // namespace
}  // namespace tensorcask::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tensorcask::TensorSlice;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<TensorSlice> slices;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::StatusOr<TensorSlice> slice = TensorSlice::Parse(line);
    if (!slice.ok()) continue;
    FUZZ_CHECK(slice->ToString() == line, slice->ToString());
    if (!slices.empty()) tensorcask::testing::CheckPair(slices.back(), *slice);
    slices.push_back(*slice);
    if (slices.size() == 200) break;
  }
  // A shape of so many axes would have too many elements.
  if (!slices.empty() && slices[0].rank() <= 15) tensorcask::testing::CheckSet(slices);
  return 0;
}
