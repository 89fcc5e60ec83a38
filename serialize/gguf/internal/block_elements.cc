#include "tensorcask/serialize/gguf/internal/block_elements.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "tensorcask/serialize/io/piece_buffer.h"
#include "tensorcask/serialize/stored/element_runs.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/row_major.h"

namespace tensorcask::gguf {
namespace {

constexpr size_t kPieceBytes = size_t{128} << 10;     // the size of blocks that are read at a time
constexpr size_t kGatheredBytes = size_t{512} << 10;  // the size of elements, for a view that is not contiguous
constexpr size_t kPartElements = size_t{1} << 21;     // for one thread: whole blocks of each type
constexpr size_t kMaxBlockElements = 256;

// Fills `out` with the elements from number `first` on.
absl::Status ReadRun(const ByteSource& source, const BlockTensor& tensor, uint64_t first, absl::Span<float> out) {
  const size_t elements = tensor.type->elements;
  const size_t bytes = tensor.type->bytes;
  PieceBuffer piece((out.size() / elements + 2) * bytes, kPieceBytes);
  auto* const blocks = reinterpret_cast<uint8_t*>(piece.data());
  while (!out.empty()) {
    const auto skip = static_cast<size_t>(first % elements);
    const bool is_part = skip > 0 || out.size() < elements;  // true if a block is not read whole
    const size_t count = is_part ? 1 : std::min(out.size() / elements, piece.size() / bytes);
    CASK_RETURN_IF_ERROR(
        source.ReadAt(tensor.offset + first / elements * bytes, absl::MakeSpan(piece.data(), count * bytes)));
    if (tensor.big_endian) SwapBlocks(*tensor.type, blocks, count);
    size_t done = count * elements;
    if (is_part) {
      std::array<float, kMaxBlockElements> numbers;
      tensor.type->decode(blocks, 1, numbers.data());
      done = std::min(elements - skip, out.size());
      std::copy_n(numbers.begin() + skip, done, out.begin());
    } else {
      tensor.type->decode(blocks, count, out.data());
    }
    first += done;
    out.remove_prefix(done);
  }
  return absl::OkStatus();
}

// The same in parts on several threads.
absl::Status ReadRunInParts(const ByteSource& source, const BlockTensor& tensor, uint64_t first, int num_threads,
                            absl::Span<float> out) {
  const size_t num_parts = (out.size() + kPartElements - 1) / kPartElements;
  if (num_threads <= 1 || num_parts <= 1) return ReadRun(source, tensor, first, out);
  std::vector<absl::Status> statuses(num_parts);
  CASK_RETURN_IF_ERROR(ParallelFor(num_threads, num_parts, [&](size_t i) {
    const size_t start = i * kPartElements;
    statuses[i] = ReadRun(source, tensor, first + start, out.subspan(start, kPartElements));
  }));
  for (const absl::Status& status : statuses) CASK_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadBlockElements(const ByteSource& source, const BlockTensor& tensor, const TensorSlice& slice,
                               int num_threads, TensorView* out) {
  if (out->num_elements() == 0) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(Layout part, Layout::RowMajor(tensor.shape).Slice(slice));
  Layout to = out->layout();
  CASK_RETURN_IF_ERROR(stored::SortAxes(&part, &to));
  CASK_ASSIGN_OR_RETURN(TensorView target, TensorView::Create(out->buffer(), out->dtype(), to));
  stored::ElementRuns runs(part);
  return FillRowMajorPieces(&target, target.IsContiguous() ? std::numeric_limits<size_t>::max() : kGatheredBytes,
                            [&](absl::Span<char> block) -> absl::Status {
                              auto rest =
                                  absl::MakeSpan(reinterpret_cast<float*>(block.data()), block.size() / sizeof(float));
                              while (!rest.empty()) {
                                const stored::ElementRuns::Run run = runs.Next(static_cast<int64_t>(rest.size()));
                                const auto count = static_cast<size_t>(run.count);
                                CASK_RETURN_IF_ERROR(ReadRunInParts(source, tensor, static_cast<uint64_t>(run.first),
                                                                    num_threads, rest.first(count)));
                                rest.remove_prefix(count);
                              }
                              return absl::OkStatus();
                            });
}

}  // namespace tensorcask::gguf
