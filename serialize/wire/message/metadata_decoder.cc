#include "tensorcask/serialize/wire/message/metadata_decoder.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/strided/memory_format.h"

namespace tensorcask::internal {
namespace {

template <typename... Pieces>
absl::Status Refused(const Pieces&... pieces) {
  return absl::InvalidArgumentError(absl::StrCat("extension: ", pieces...));
}

absl::Status CheckName(absl::string_view what, absl::string_view name, const DecodeOptions& options) {
  if (static_cast<int64_t>(name.size()) <= options.limits.max_name_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("extension: ", what, " has ", name.size(),
                                                   " bytes; the limit max_name_bytes is ",
                                                   options.limits.max_name_bytes));
}

absl::Status CheckMemoryFormat(int32_t number, int rank) {
  if (number < 0 || number > static_cast<int32_t>(MemoryFormat::kChannelsLast3d)) {
    return Refused("memory_format is ", number, "; expected 0 (contiguous), 1 or 2 (channels last)");
  }
  const auto format = static_cast<MemoryFormat>(number);
  const size_t wanted_rank = ChannelsLastOrder(format).size();
  if (wanted_rank == 0 || wanted_rank == static_cast<size_t>(rank)) return absl::OkStatus();
  return Refused("memory_format is ", MemoryFormatName(format), ", which is for rank ", wanted_rank,
                 "; the tensor has rank ", rank);
}

absl::Status DecodeAttributes(const TensorFields& fields, const DecodeOptions& options, TensorMetadata* metadata) {
  auto& attributes = metadata->attributes;
  absl::Status status;
  size_t num_bytes = 0;
  fields.ForEachAttribute([&](absl::string_view key, absl::string_view value) {
    status = CheckName("the key of an attribute", key, options);
    num_bytes += key.size() + value.size();
    if (!status.ok()) return false;
    if (key.empty()) {
      status = Refused("attributes has an empty key");
    } else if (!attributes.empty() && attributes.rbegin()->first >= key) {
      status = Refused("attributes has the key ", Quoted(key), " after ", Quoted(attributes.rbegin()->first),
                       "; keys must be sorted, each key once");
    } else if (attributes.size() == TensorMetadata::kMaxAttributes || num_bytes > TensorMetadata::kMaxAttributeBytes) {
      status = Refused("attributes has more than ", TensorMetadata::kMaxAttributes, " attributes or ",
                       TensorMetadata::kMaxAttributeBytes, " bytes");
    } else {
      attributes.emplace_hint(attributes.end(), std::string(key.data(), key.size()),
                              std::string(value.data(), value.size()));
    }
    return status.ok();
  });
  return status;
}

}  // namespace

absl::Status DecodeReadableMetadata(const TensorFields& fields, DType dtype, int rank, const DecodeOptions& options,
                                    TensorMetadata* metadata) {
  const ExtensionFields& extension = fields.extension;
  *metadata = TensorMetadata();
  absl::Status first = CheckName("name", extension.name, options);
  if (first.ok()) metadata->name.assign(extension.name.data(), extension.name.size());
  const absl::StatusOr<Device> device = options.device_map.Apply(extension.device);
  if (device.ok()) {
    metadata->device = *device;
  } else {
    first.Update(Annotate(device.status(), "extension"));
  }
  const absl::Status memory_format = CheckMemoryFormat(extension.memory_format, rank);
  if (memory_format.ok()) metadata->memory_format = static_cast<MemoryFormat>(extension.memory_format);
  first.Update(memory_format);
  if (extension.requires_grad && !IsFloating(dtype) && !IsComplex(dtype)) {
    first.Update(Refused("requires_grad is set for ", DTypeName(dtype),
                         "; only tensors of floating and complex dtypes have it"));
  } else {
    metadata->requires_grad = extension.requires_grad;
  }
  const absl::Status attributes = DecodeAttributes(fields, options, metadata);
  if (!attributes.ok()) metadata->attributes.clear();
  first.Update(attributes);
  const absl::Status valid =
      metadata->Validate(dtype);  // a raised max_name_bytes does not widen what a tensor may have
  if (!valid.ok()) *metadata = TensorMetadata();
  first.Update(valid);
  return first;
}

absl::StatusOr<TensorMetadata> DecodeMetadata(const TensorFields& fields, DType dtype, int rank,
                                              const DecodeOptions& options) {
  TensorMetadata metadata;
  CASK_RETURN_IF_ERROR(DecodeReadableMetadata(fields, dtype, rank, options, &metadata));
  return metadata;
}

}  // namespace tensorcask::internal
