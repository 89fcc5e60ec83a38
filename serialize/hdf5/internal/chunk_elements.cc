#include "tensorcask/serialize/hdf5/internal/chunk_elements.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/stored/stored_tensor.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::hdf5 {
namespace {

using Bytes = RefPtr<TensorBuffer>;

// `size` bytes of elements from a stream of zlib, which ends there and has the Adler-32 of them.
absl::StatusOr<Bytes> Inflate(absl::string_view deflated, uint64_t size, const RefPtr<Allocator>& allocator) {
  CASK_ASSIGN_OR_RETURN(Bytes bytes, TensorBuffer::Allocate(static_cast<size_t>(size), allocator));
  // Sizes of chunks, and so those of zlib, have 32 bits.
  uLongf written = static_cast<uLongf>(size);
  auto used = static_cast<uLong>(deflated.size());
  const int result = uncompress2(static_cast<Bytef*>(bytes->mutable_data()), &written,
                                 reinterpret_cast<const Bytef*>(deflated.data()), &used);
  if (result == Z_MEM_ERROR) return MarkResourceFailure(absl::ResourceExhaustedError("no memory to inflate"));
  if (result != Z_OK || written != size || used != deflated.size()) {
    return absl::DataLossError(absl::StrCat("is not ", size, " deflated bytes"));
  }
  return bytes;
}

// Puts the bytes of each element together again: the first bytes of all elements come first, then the second ones.
absl::StatusOr<Bytes> Unshuffle(absl::string_view shuffled, uint64_t element_bytes,
                                const RefPtr<Allocator>& allocator) {
  CASK_ASSIGN_OR_RETURN(Bytes bytes, TensorBuffer::Allocate(shuffled.size(), allocator));
  auto* const out = static_cast<char*>(bytes->mutable_data());
  const auto width = static_cast<size_t>(std::min<uint64_t>(element_bytes, shuffled.size()));
  const size_t count = shuffled.size() / width;
  for (size_t byte = 0; byte < width; ++byte) {
    const char* const from = shuffled.data() + byte * count;
    for (size_t i = 0; i < count; ++i) out[i * width + byte] = from[i];
  }
  std::copy(shuffled.begin() + static_cast<std::ptrdiff_t>(count * width), shuffled.end(), out + count * width);
  return bytes;
}

class SliceReader {
 public:
  SliceReader(const std::shared_ptr<const ByteSource>& source, const ChunkedDataset& dataset,
              const stored::ElementOptions& options, const DecodeLimits& limits, TensorView* out)
      : source_(source),
        dataset_(dataset),
        storage_(*dataset.storage),
        options_(options),
        limits_(limits),
        out_(*out) {}

  absl::Status Read(const TensorSlice& slice) {
    if (out_.num_elements() == 0) return absl::OkStatus();
    if (storage_.missing_bytes > 0) CASK_RETURN_IF_ERROR(Fill());
    if (storage_.form == Storage::Form::kNone) return absl::OkStatus();
    const auto rank = static_cast<size_t>(dataset_.shape->rank());
    starts_.resize(rank);
    ends_.resize(rank);
    std::vector<int64_t> first(rank), last(rank);  // chunks along each axis of the grid; both are included
    for (size_t axis = 0; axis < rank; ++axis) {
      const TensorSlice::Extent extent = slice.extent(static_cast<int>(axis));
      starts_[axis] = extent.full() ? 0 : extent.start;
      ends_[axis] = starts_[axis] + (extent.full() ? dataset_.shape->dim(static_cast<int>(axis)) : extent.length);
      first[axis] = starts_[axis] / storage_.chunk_dims[axis];
      last[axis] = (ends_[axis] - 1) / storage_.chunk_dims[axis];
    }
    // Chunks have increasing numbers along the way.
    std::vector<int64_t> at = first;
    while (true) {
      CASK_RETURN_IF_ERROR(ReadChunkAt(at));
      size_t axis = rank;
      while (axis > 0 && at[axis - 1] == last[axis - 1]) {
        --axis;
        at[axis] = first[axis];
      }
      if (axis == 0) return absl::OkStatus();
      ++at[axis - 1];
    }
  }

 private:
  // All of *out with the fill value.
  absl::Status Fill() {
    CASK_ASSIGN_OR_RETURN(Tensor element, Tensor::Zeros(dataset_.dtype, TensorShape({})));
    if (!storage_.fill.empty()) {
      stored::StoredTensor stored;
      stored.dtype = dataset_.dtype;
      stored.stored_bytes = storage_.fill.size();
      stored.big_endian = dataset_.big_endian;
      CASK_ASSIGN_OR_RETURN(element,
                            stored::ReadElements(*MakeMemorySource("the fill value", storage_.fill), stored, options_));
    }
    TensorView from = element;
    CASK_ASSIGN_OR_RETURN(from, from.Expand(out_.dims()));
    return Copy(from, &out_);
  }

  absl::Status ReadChunkAt(const std::vector<int64_t>& at) {
    uint64_t number = 0;
    for (size_t axis = 0; axis < at.size(); ++axis) {
      number = number * static_cast<uint64_t>(storage_.grid[axis]) + static_cast<uint64_t>(at[axis]);
    }
    const auto chunk = std::lower_bound(storage_.chunks.begin(), storage_.chunks.end(), number,
                                        [](const Chunk& a, uint64_t key) { return a.number < key; });
    if (chunk == storage_.chunks.end() || chunk->number != number) return absl::OkStatus();
    const absl::Status status = ReadPart(*chunk, at);
    if (status.ok()) return status;
    return Annotate(status, absl::StrCat("the chunk [", absl::StrJoin(at, ","), "] of the grid, at ", chunk->position));
  }

  // The part of the chunk that is in the slice.
  absl::Status ReadPart(const Chunk& chunk, const std::vector<int64_t>& at) {
    std::vector<TensorSlice::Extent> in_chunk, in_slice;
    for (size_t axis = 0; axis < at.size(); ++axis) {
      const int64_t begin = at[axis] * storage_.chunk_dims[axis];
      const int64_t from = std::max(begin, starts_[axis]);
      const int64_t to = std::min(begin + storage_.chunk_dims[axis], ends_[axis]);
      in_chunk.push_back({from - begin, to - from});
      in_slice.push_back({from - starts_[axis], to - from});
    }
    CASK_ASSIGN_OR_RETURN(const TensorSlice part, TensorSlice::Create(in_chunk));
    CASK_ASSIGN_OR_RETURN(const TensorSlice target, TensorSlice::Create(in_slice));
    TensorView view = out_;
    CASK_ASSIGN_OR_RETURN(view, view.Slice(target));

    stored::StoredTensor tensor;
    tensor.dtype = dataset_.dtype;
    tensor.big_endian = dataset_.big_endian;
    CASK_ASSIGN_OR_RETURN(tensor.shape, TensorShape::Create(storage_.chunk_dims));
    tensor.stored_bytes = static_cast<uint64_t>(tensor.shape.num_elements()) * ElementSize(dataset_.dtype);
    CASK_ASSIGN_OR_RETURN(const Bytes bytes, RemoveFilters(chunk, tensor.stored_bytes));
    if (bytes == nullptr) {
      tensor.offset = chunk.position;
      return stored::ReadSliceOfElementsInto(*source_, tensor, part, options_, &view);
    }
    return stored::ReadSliceOfElementsInto(*MakeMemorySource(source_->name(), bytes), tensor, part, options_, &view);
  }

  // Null if the bytes in the source are those of the elements.
  absl::StatusOr<Bytes> RemoveFilters(const Chunk& chunk, uint64_t size) {
    Bytes bytes;
    DecodeQuota memory = DecodeQuota::ForUnbacked(
        limits_, chunk.stored_bytes + static_cast<uint64_t>(out_.num_elements()) * ElementSize(dataset_.dtype));
    for (size_t i = storage_.filters.size(); i-- > 0;) {
      if ((chunk.skipped_filters >> i & 1) != 0) continue;
      if (bytes == nullptr) {
        CASK_ASSIGN_OR_RETURN(bytes,
                              TensorBuffer::Allocate(static_cast<size_t>(chunk.stored_bytes), options_.allocator));
        CASK_RETURN_IF_ERROR(source_->ReadAt(
            chunk.position, absl::MakeSpan(static_cast<char*>(bytes->mutable_data()), bytes->size_bytes())));
      }
      const AppliedFilter& filter = storage_.filters[i];
      CASK_RETURN_IF_ERROR(memory.Charge(filter.filter == Filter::kDeflate ? size : bytes->size_bytes()));
      if (filter.filter == Filter::kDeflate) {
        CASK_ASSIGN_OR_RETURN(bytes, Inflate(bytes->bytes(), size, options_.allocator));
      } else {
        CASK_ASSIGN_OR_RETURN(bytes, Unshuffle(bytes->bytes(), filter.element_bytes, options_.allocator));
      }
    }
    if (bytes != nullptr && bytes->size_bytes() != size) {
      return absl::DataLossError(absl::StrCat("has ", bytes->size_bytes(), " bytes of elements, not ", size));
    }
    return bytes;
  }

  const std::shared_ptr<const ByteSource>& source_;
  const ChunkedDataset& dataset_;
  const Storage& storage_;
  const stored::ElementOptions& options_;
  const DecodeLimits& limits_;
  TensorView& out_;
  std::vector<int64_t> starts_, ends_;  // the slice, along each axis
};

}  // namespace

absl::Status ReadChunkElements(const std::shared_ptr<const ByteSource>& source, const ChunkedDataset& dataset,
                               const TensorSlice& slice, const stored::ElementOptions& options,
                               const DecodeLimits& limits, TensorView* out) {
  return SliceReader(source, dataset, options, limits, out).Read(slice);
}

}  // namespace tensorcask::hdf5
