#include "tensorcask/serialize/checkpoint/encoded_tensor.h"

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/payload/payload_head.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::checkpoint {

absl::Status InFile(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? absl::DataLossError(status.message()) : status;
}

absl::StatusOr<PayloadReader> OpenPayload(const std::shared_ptr<const ByteSource>& file, const CheckpointEntry& entry,
                                          const CheckpointReaderOptions& options) {
  PayloadReadOptions read;
  read.limits = options.limits;
  read.num_threads = options.read.strategy == ReadStrategy::kParallel ? options.read.num_threads : 1;
  read.verify = options.verify == Verify::kOnRead;
  absl::StatusOr<PayloadReader> payload = PayloadReader::Open(file, entry.offset, entry.stored_bytes, read);
  // The head in the index is of a version that this one knows, so one that is not is another.
  if (absl::IsUnimplemented(payload.status()) || (payload.ok() && payload->head() != *entry.payload)) {
    return absl::DataLossError("the head of its payload is not the one that the index has");
  }
  if (!payload.ok()) return InFile(payload.status());
  return payload;
}

absl::Status SetBase(const CheckpointEntry& entry, const ReaderImpl* base, PayloadReader* payload) {
  const PayloadHead& head = payload->head();
  if (!head.is_delta) return absl::OkStatus();
  if (base == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("it is stored as a delta to the tensor of its name with the hash ", head.base.ToString(),
                     ", and no base is given (CheckpointReaderOptions::base)"));
  }
  const absl::StatusOr<CheckpointEntry> found = base->Find(entry.name);
  if (absl::IsNotFound(found.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("it is stored as a delta, and its base, ", base->prefix(), ", has no tensor of its name"));
  }
  CASK_RETURN_IF_ERROR(found.status());
  if (found->payload != nullptr && found->payload->is_delta) {
    return absl::FailedPreconditionError(
        absl::StrCat("it is stored as a delta, and so is the tensor of its name in its base, ", base->prefix()));
  }
  if (found->dtype != head.dtype || static_cast<uint64_t>(found->shape.num_elements()) != head.num_elements) {
    return absl::FailedPreconditionError(
        absl::StrCat("it is stored as a delta, and the tensor of its name in its base, ", base->prefix(), ", is ",
                     DTypeName(found->dtype), " ", found->shape.ToString(), "; wanted are ", head.num_elements,
                     " elements of ", DTypeName(head.dtype)));
  }
  CASK_ASSIGN_OR_RETURN(const Tensor tensor, base->Read(entry.name));
  absl::Status set = payload->SetBase(tensor);
  if (!absl::IsFailedPrecondition(set)) return set;
  return absl::FailedPreconditionError(absl::StrCat("its base, ", base->prefix(), ": ", set.message()));
}

}  // namespace tensorcask::checkpoint
