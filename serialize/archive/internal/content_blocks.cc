#include "tensorcask/serialize/archive/internal/content_blocks.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/internal/sliced_blocks.h"
#include "tensorcask/tensor/base/bool_bytes.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/internal/changing_memory.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::archive {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;  // in the cache for the checksum and the system call

// `bytes` begin at byte `first` of the tensor. Errors: DataLoss, as CheckBools, with the number in the tensor.
absl::Status CheckBoolsAt(uint64_t first, absl::string_view bytes) {
  if (AreBools(bytes)) return absl::OkStatus();
  const auto* const bad = std::find_if(bytes.begin(), bytes.end(), [](char c) { return c != 0 && c != 1; });
  return absl::DataLossError(absl::StrCat("byte ", first + (bad - bytes.begin()), " is ",
                                          static_cast<int>(static_cast<uint8_t>(*bad)), "; a bool is 0 or 1"));
}

}  // namespace

ArchiveEntry DescribeContent(std::string name, const internal::StoredContent& content) {
  ArchiveEntry entry;
  entry.name = std::move(name);
  entry.dtype = content.dtype;
  entry.shape = content.shape;
  entry.encoding = DTypeNumber(content.dtype) >= kFirstOwnDTypeNumber ? "guarded" : "plain";
  entry.has_metadata = !content.metadata.IsDefault() || !content.metadata_status.ok();
  return entry;
}

absl::StatusOr<std::unique_ptr<TensorBlocks>> MakeContentBlocks(const ArchiveEntry& entry, uint64_t block_bytes,
                                                                std::shared_ptr<const ByteSource> file,
                                                                const internal::StoredContent& content,
                                                                uint64_t checked_from,
                                                                std::function<absl::Status(uint32_t crc)> check) {
  BlockFunctions functions;
  if (check) {
    std::vector<char> before(static_cast<size_t>(content.offset - checked_from));
    CASK_RETURN_IF_ERROR(file->ReadAt(checked_from, absl::MakeSpan(before)));
    functions.crc_before = Crc32c({before.data(), before.size()});
    functions.check = std::move(check);
  }
  // Blocks follow one another, and each starts its buffer.
  functions.read = [file = std::move(file), name = entry.name, begin = content.offset, next = content.offset](
                       const TensorSlice& /*slice*/, TensorView* out) mutable {
    CASK_RETURN_IF_ERROR(out->EnsureMutable());
    const absl::Span<char> bytes(static_cast<char*>(out->buffer()->mutable_data()), out->bytes().size());
    CASK_RETURN_IF_ERROR(file->ReadAt(next, bytes));
    const uint64_t first = next - begin;
    next += bytes.size();
    if (out->dtype() != DType::kBool) return absl::OkStatus();
    const absl::Status valid = CheckBoolsAt(first, {bytes.data(), bytes.size()});
    return valid.ok() ? valid : Annotate(valid, absl::StrCat(file->name(), ": tensor ", Quoted(name)));
  };
  return MakeSlicedBlocks(entry, block_bytes, std::move(functions));
}

absl::Status MessageSlices::Add(const ArchiveEntry& entry, const TensorMetadata& metadata, const TensorSlice& slice,
                                const TensorView& elements,
                                absl::FunctionRef<absl::Status(uint64_t message_bytes)> begin, Append append) {
  CASK_ASSIGN_OR_RETURN(const SliceOrder::Step step, order_.Next(entry, slice, elements));
  if (step.is_first) {
    CASK_ASSIGN_OR_RETURN(internal::MessageFrame frame, internal::MakeMessageFrame(entry.dtype, entry.shape, metadata));
    CASK_RETURN_IF_ERROR(begin(frame.total_bytes()));
    CASK_RETURN_IF_ERROR(append(frame.header));
    tail_ = std::move(frame.tail);
  }
  CASK_RETURN_IF_ERROR(internal::ForEachStablePiece(elements, kPieceBytes, append));
  return step.is_last ? append(tail_) : absl::OkStatus();
}

}  // namespace tensorcask::archive
