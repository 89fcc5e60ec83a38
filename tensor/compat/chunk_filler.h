// Fills a tensor with chunks of its elements. Chunks arrive in any order, each element exactly once.
//
//   ResizableTensor t;
//   absl::Status status = t.Resize({1000});
//   absl::StatusOr<ChunkFiller> filler = ChunkFiller::Create(&t, DType::kFloat32);
//   status = filler->WriteBytes(/*begin=*/500, chunk);        // elements 500 to 500 + chunk.size() / 4
//   filler->Missing(10)                                       // the first ten ranges that have not arrived
//   absl::StatusOr<Tensor> done = filler->Finish();           // FailedPrecondition while any is missing
//
// Begins and ends count elements in row-major order; a range is [begin, end). The filler stores the ranges that have
// arrived, and joins ranges that touch. Chunks in order need one range; at most `max_ranges` are stored, so that a
// sender cannot make the filler use more memory.
//
// The filler shares the memory of the tensor it was made for until that tensor is resized. Threads share a filler only
// with a lock.

#ifndef TENSORCASK_TENSOR_COMPAT_CHUNK_FILLER_H_
#define TENSORCASK_TENSOR_COMPAT_CHUNK_FILLER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/compat/resizable.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

class ChunkFiller {
 public:
  static constexpr size_t kDefaultMaxRanges = 65536;

  struct Range {
    int64_t begin;
    int64_t end;
    friend bool operator==(const Range& a, const Range& b) { return a.begin == b.begin && a.end == b.end; }
    friend bool operator!=(const Range& a, const Range& b) { return !(a == b); }
  };

  // Makes a filler for all elements of *tensor, which gets `dtype` and memory. Errors: those of
  // ResizableTensor::MutableRawData.
  static absl::StatusOr<ChunkFiller> Create(ResizableTensor* tensor, DType dtype,
                                            size_t max_ranges = kDefaultMaxRanges);

  // Writes elements from number `begin` on. An empty chunk is allowed at any `begin` inside the tensor. Requires: the
  // chunk does not overlap the tensor's own memory.
  // Errors, and nothing has been written: OutOfRange, naming the range, if it is not inside the tensor; AlreadyExists,
  // naming the earlier range, if an element has arrived before; InvalidArgument if T is not the element type of the
  // tensor; for bytes, InvalidArgument if they are not a whole number of elements, if a bool is neither 0 nor 1, or if
  // the elements are objects; ResourceExhausted if there would be more than max_ranges ranges, or the memory cannot be
  // allocated; FailedPrecondition after Finish.
  absl::Status WriteBytes(int64_t begin, absl::string_view bytes);
  template <typename T>
  absl::Status Write(int64_t begin, absl::Span<const T> values) {
    CASK_RETURN_IF_ERROR(CheckDType(kDTypeOf<T>));
    if constexpr (IsObject(kDTypeOf<T>)) {
      CASK_RETURN_IF_ERROR(CheckRange(begin, values.size()));
      if (!values.empty()) std::copy(values.begin(), values.end(), tensor_.mutable_data<T>() + begin);
      Arrived({begin, begin + static_cast<int64_t>(values.size())});
      return absl::OkStatus();
    } else {
      return WriteBytes(begin, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
    }
  }

  bool IsComplete() const { return num_missing_ == 0; }
  int64_t num_missing() const { return num_missing_; }  // elements
  std::vector<Range> Missing(size_t max_ranges) const;  // the first ones, in order

  // The filled tensor.
  // Errors: FailedPrecondition, naming the missing ranges, while elements are missing (the filler can still be used),
  // and on a second call.
  absl::StatusOr<Tensor> Finish();

 private:
  ChunkFiller(Tensor tensor, size_t max_ranges)
      : tensor_(std::move(tensor)), num_missing_(tensor_.num_elements()), max_ranges_(max_ranges) {}

  absl::Status CheckOpen() const;
  absl::Status CheckDType(DType dtype) const;
  absl::Status CheckRange(int64_t begin, size_t count);  // also makes the memory writable
  void Arrived(Range range);

  Tensor tensor_;
  int64_t num_missing_;
  size_t max_ranges_;
  bool finished_ = false;
  std::map<int64_t, int64_t> arrived_;  // begin to end; no two touch
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_COMPAT_CHUNK_FILLER_H_
