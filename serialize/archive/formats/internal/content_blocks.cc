#include "tensorcask/serialize/archive/formats/internal/content_blocks.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/bool_bytes.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/changing_memory.h"

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

class ContentStream final : public ElementStream {
 public:
  ContentStream(std::shared_ptr<const ByteSource> file, const internal::StoredContent& content, std::string name,
                uint32_t crc_before, std::function<absl::Status(uint32_t crc)> check)
      : file_(std::move(file)),
        name_(std::move(name)),
        begin_(content.offset),
        end_(content.offset + content.bytes),
        is_bool_(content.dtype == DType::kBool),
        check_(std::move(check)),
        next_(content.offset),
        crc_(crc_before) {}

  absl::Status Read(absl::Span<char> out) override {
    if (out.size() > end_ - next_) {
      return absl::InvalidArgumentError(absl::StrCat(file_->name(), ": tensor ", Quoted(name_), ": ", end_ - next_,
                                                     " bytes are left; wanted at most that, not ", out.size()));
    }
    while (!out.empty()) {
      const absl::Span<char> piece = out.first(std::min(out.size(), kPieceBytes));
      const absl::string_view bytes(piece.data(), piece.size());
      CASK_RETURN_IF_ERROR(file_->ReadAt(next_, piece));
      if (check_) crc_ = ExtendCrc32c(crc_, bytes);
      CASK_ANNOTATE_IF_ERROR(is_bool_ ? CheckBoolsAt(next_ - begin_, bytes) : absl::OkStatus(),
                             absl::StrCat(file_->name(), ": tensor ", Quoted(name_)));
      next_ += piece.size();
      out.remove_prefix(piece.size());
    }
    return absl::OkStatus();
  }
  absl::Status Finish() override {
    if (!check_) return absl::OkStatus();
    std::vector<char> rest(static_cast<size_t>(std::min<uint64_t>(end_ - next_, kPieceBytes)));
    while (next_ < end_) {
      CASK_RETURN_IF_ERROR(Read(absl::MakeSpan(rest).first(std::min<uint64_t>(end_ - next_, rest.size()))));
    }
    return check_(crc_);
  }

 private:
  const std::shared_ptr<const ByteSource> file_;
  const std::string name_;
  const uint64_t begin_;
  const uint64_t end_;
  const bool is_bool_;
  const std::function<absl::Status(uint32_t crc)> check_;
  uint64_t next_;  // byte of the file
  uint32_t crc_;
};

}  // namespace

ArchiveEntry DescribeContent(std::string name, const internal::StoredContent& content) {
  ArchiveEntry entry;
  entry.name = std::move(name);
  entry.dtype = content.dtype;
  entry.shape = content.shape;
  entry.encoding = DTypeNumber(content.dtype) >= kFirstOwnDTypeNumber ? "extension-only" : "plain";
  entry.reads_in_blocks = true;
  entry.has_metadata = !content.metadata.IsDefault() || !content.metadata_status.ok();
  return entry;
}

absl::StatusOr<std::unique_ptr<ElementStream>> OpenContent(std::shared_ptr<const ByteSource> file,
                                                           const internal::StoredContent& content, std::string name,
                                                           uint64_t checked_from,
                                                           std::function<absl::Status(uint32_t crc)> check) {
  std::vector<char> before(check ? static_cast<size_t>(content.offset - checked_from) : 0);
  if (!before.empty()) CASK_RETURN_IF_ERROR(file->ReadAt(checked_from, absl::MakeSpan(before)));
  return std::unique_ptr<ElementStream>(std::make_unique<ContentStream>(
      std::move(file), content, std::move(name), Crc32c({before.data(), before.size()}), std::move(check)));
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
