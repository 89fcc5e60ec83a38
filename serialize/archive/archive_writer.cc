#include "tensorcask/serialize/archive/archive_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/copy.h"

namespace tensorcask {

absl::Status ArchiveWriter::Declare(const ArchiveEntry& /*entry*/) { return first_error_; }

bool ArchiveWriter::writes_in_blocks(const ArchiveEntry& /*entry*/) const { return false; }

absl::Status ArchiveWriter::AddSlice(const ArchiveEntry& entry, const TensorMetadata& metadata,
                                     const TensorSlice& slice, const TensorView& elements) {
  return UnlessFailed([&] { return AddPart(entry, metadata, slice, elements); });
}

absl::Status ArchiveWriter::AddPart(const ArchiveEntry& entry, const TensorMetadata& metadata, const TensorSlice& slice,
                                    const TensorView& elements) {
  if (partial_.has_value() && partial_->name != entry.name) return CheckComplete();
  if (!partial_.has_value()) {
    CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(entry.dtype, entry.shape));
    partial_ = {entry.name, std::move(tensor), 0};
  }
  CASK_ASSIGN_OR_RETURN(TensorView part, TensorView(partial_->tensor).Slice(slice));
  CASK_RETURN_IF_ERROR(Copy(elements, &part));
  partial_->num_elements += elements.num_elements();
  if (partial_->num_elements < entry.shape.num_elements()) return absl::OkStatus();
  DecodedTensor whole;
  whole.view = TensorView(partial_->tensor);
  whole.metadata = metadata;
  partial_.reset();
  return Add(entry, whole);
}

absl::Status ArchiveWriter::Finish() {
  return UnlessFailed([&]() -> absl::Status {
    CASK_RETURN_IF_ERROR(CheckComplete());
    CASK_ASSIGN_OR_RETURN(file_bytes_, Publish());
    return absl::OkStatus();
  });
}

absl::Status ArchiveWriter::UnlessFailed(absl::FunctionRef<absl::Status()> call) {
  if (first_error_.ok()) first_error_ = call();
  return first_error_;
}

uint64_t ArchiveWriter::BytesOfFile(const std::string& path, FileSystem* file_system) {
  return DescribeFile(path, file_system).value_or(FileInfo()).size_bytes;
}

absl::Status ArchiveWriter::CheckComplete() const {
  if (!partial_.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("tensor ", Quoted(partial_->name), ": only ",
                                                    partial_->num_elements, " of ", partial_->tensor.num_elements(),
                                                    " elements have come"));
}

}  // namespace tensorcask
