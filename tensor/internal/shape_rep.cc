#include "tensorcask/tensor/internal/shape_rep.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/types/span.h"
#include "tensorcask/tensor/base/check.h"

namespace tensorcask::internal {

void TensorShapeRep::Assign(absl::Span<const int64_t> dims, int64_t num_elements) {
  CASK_CHECK(dims.size() < std::numeric_limits<uint8_t>::max(), "a shape has at most 254 dims");
  const auto all_below = [&](int64_t end) {
    return std::all_of(dims.begin(), dims.end(), [=](int64_t dim) { return dim < end; });
  };
  // `bits` bits a dim, packed into the first twelve bytes.
  uint64_t words[2] = {};
  const auto pack = [&](size_t bits) {
    for (size_t i = 0; i < dims.size(); ++i) words[i * bits / 64] |= static_cast<uint64_t>(dims[i]) << (i * bits % 64);
  };
  Form form = Form::k16;
  if (dims.size() <= kMax16Rank && all_below(kEnd16)) {
    pack(16);
  } else if (dims.size() <= kMax32Rank && all_below(kEnd32)) {
    form = Form::k32;
    pack(32);
  } else {
    // Allocated before the old block is freed: if `new` throws, nothing has changed.
    form = Form::kHeap;
    auto* const block = new int64_t[dims.size()];
    std::copy(dims.begin(), dims.end(), block);
    words[0] = reinterpret_cast<uintptr_t>(block);
  }
  if (this->form() == Form::kHeap) FreeHeap();
  Store(0, words[0]);
  Store(sizeof(uint64_t), words[1] | InLastWord(kDTypeByte, bytes_[kDTypeByte]) | InLastWord(kRankByte, dims.size()) |
                              InLastWord(kFormByte, static_cast<uint64_t>(form)));
  num_elements_ = num_elements;
}

void TensorShapeRep::CloneHeap() {
  const int64_t* const original = heap();
  bytes_[kFormByte] = static_cast<uint8_t>(Form::k16);  // owns no memory in case `new` throws
  int64_t* const block = new int64_t[static_cast<size_t>(rank())];
  std::copy(original, original + rank(), block);
  Store(0, block);
  bytes_[kFormByte] = static_cast<uint8_t>(Form::kHeap);
}

void TensorShapeRep::FreeHeap() { delete[] heap(); }

}  // namespace tensorcask::internal
