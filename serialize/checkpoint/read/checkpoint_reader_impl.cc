#include "tensorcask/serialize/checkpoint/read/checkpoint_reader_impl.h"

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/device_elements.h"

namespace tensorcask::checkpoint {

absl::StatusOr<Tensor> ReaderImpl::ReadToDevice(absl::string_view name, const RefPtr<Allocator>& allocator,
                                                DecodeQuota* decoded) const {
  CASK_ASSIGN_OR_RETURN(Tensor memory, MemoryFor(name, allocator, decoded));
  if (memory.buffer()) {
    TensorView view = memory;
    CASK_RETURN_IF_ERROR(ReadInto(name, &view));
    return memory;
  }
  CASK_ASSIGN_OR_RETURN(const Tensor on_host, Read(name, decoded));
  if (IsObject(on_host.dtype())) return on_host;
  CASK_ASSIGN_OR_RETURN(const TensorView on_device, internal::CloneAcross(on_host, allocator));
  return on_device.ToTensor();
}

absl::StatusOr<std::unique_ptr<ElementStream>> ReaderImpl::OpenStream(absl::string_view name) const {
  CASK_RETURN_IF_ERROR(Find(name).status());
  return absl::UnimplementedError(
      absl::StrCat(prefix(), ": tensor ", Quoted(name), ": a V1 checkpoint is not read as a stream"));
}

absl::StatusOr<BaseLookup::Info> ReaderImpl::FindBase(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const CheckpointEntry entry, Find(name));
  return BaseLookup::Info{entry.dtype, entry.shape, entry.payload != nullptr && entry.payload->is_delta};
}

absl::StatusOr<std::shared_ptr<const BaseTensor>> ReaderImpl::ReadBase(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const Tensor tensor, Read(name));  // on the host
  return BaseTensor::Create(tensor);
}

}  // namespace tensorcask::checkpoint
