#include "tensorcask/tensor/internal/shape_rep.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>

#include "absl/types/span.h"
#include "tensorcask/tensor/base/check.h"

namespace tensorcask::internal {
namespace {

// Dims never change where they are, so copies of a shape share them: a count of owners is in front of the dims.
using Owners = std::atomic<int64_t>;
static_assert(sizeof(Owners) == sizeof(int64_t) && alignof(Owners) == alignof(int64_t), "the dims follow the count");

Owners* OwnersOf(int64_t* dims) { return reinterpret_cast<Owners*>(dims) - 1; }

int64_t* NewDims(absl::Span<const int64_t> dims) {
  void* const block = ::operator new(sizeof(Owners) + dims.size() * sizeof(int64_t));
  auto* const copy = reinterpret_cast<int64_t*>(new (block) Owners(1) + 1);
  std::copy(dims.begin(), dims.end(), copy);
  return copy;
}

}  // namespace

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
    words[0] = reinterpret_cast<uintptr_t>(NewDims(dims));
  }
  if (this->form() == Form::kHeap) FreeHeap();
  Store(0, words[0]);
  Store(sizeof(uint64_t), words[1] | InLastWord(kDTypeByte, bytes_[kDTypeByte]) | InLastWord(kRankByte, dims.size()) |
                              InLastWord(kFormByte, static_cast<uint64_t>(form)));
  num_elements_ = num_elements;
}

void TensorShapeRep::CloneHeap() { OwnersOf(heap())->fetch_add(1, std::memory_order_relaxed); }

void TensorShapeRep::FreeHeap() {
  Owners* const owners = OwnersOf(heap());
  if (owners->fetch_sub(1, std::memory_order_acq_rel) == 1) ::operator delete(owners);
}

}  // namespace tensorcask::internal
