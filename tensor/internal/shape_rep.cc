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
  const bool all_below_end16 = std::all_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < kEnd16; });
  const bool all_below_end32 = std::all_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < kEnd32; });
  Form form = Form::kHeap;
  if (dims.size() <= kMax16Rank && all_below_end16) {
    form = Form::k16;
  } else if (dims.size() <= kMax32Rank && all_below_end32) {
    form = Form::k32;
  }

  // Allocates the new block before it frees the old one: if `new` throws, nothing has changed.
  int64_t* const block = form == Form::kHeap ? new int64_t[dims.size()] : nullptr;
  if (this->form() == Form::kHeap) FreeHeap();
  std::fill(bytes_, bytes_ + kDTypeByte, uint8_t{0});
  switch (form) {
    // The bounds are for GCC 12, which warns of writes behind bytes_ where it cannot tell how many dims there are.
    case Form::k16:
      for (size_t i = 0; i < dims.size() && i < kMax16Rank; ++i)
        Store(i * sizeof(uint16_t), static_cast<uint16_t>(dims[i]));
      break;
    case Form::k32:
      for (size_t i = 0; i < dims.size() && i < kMax32Rank; ++i)
        Store(i * sizeof(uint32_t), static_cast<uint32_t>(dims[i]));
      break;
    case Form::kHeap:
      std::copy(dims.begin(), dims.end(), block);
      Store(0, block);
      break;
  }
  bytes_[kRankByte] = static_cast<uint8_t>(dims.size());
  bytes_[kFormByte] = static_cast<uint8_t>(form);
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
