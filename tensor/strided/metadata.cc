#include "tensorcask/tensor/strided/metadata.h"

#include <cstddef>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/memory_format.h"

namespace tensorcask {
namespace {

constexpr size_t kMaxShownAttributes = 8;

}  // namespace

absl::Status TensorMetadata::Validate(DType dtype) const {
  const auto refused = [this](const auto&... why) {
    return absl::InvalidArgumentError(absl::StrCat("metadata of tensor ", Quoted(name), ": ", why...));
  };
  if (name.size() > kMaxNameBytes) {
    return refused("the name has ", name.size(), " bytes; at most ", kMaxNameBytes, " are allowed");
  }
  if (DeviceTypeName(device.type) == "unknown" || device.index < 0) {
    return refused("device ", static_cast<int>(device.type), ":", device.index, " does not exist");
  }
  if (memory_format > MemoryFormat::kChannelsLast3d) {
    return refused("memory format ", MemoryFormatName(memory_format), " is not an order of axes");
  }
  if (requires_grad && !IsFloating(dtype) && !IsComplex(dtype)) {
    return refused("requires_grad is for floating and complex dtypes; the dtype is ", DTypeName(dtype));
  }
  if (attributes.size() > kMaxAttributes) {
    return refused(attributes.size(), " attributes; at most ", kMaxAttributes, " are allowed");
  }
  size_t num_bytes = 0;  // does not overflow: the memory exists
  for (const auto& [key, value] : attributes) {
    if (key.empty()) return refused("an attribute has an empty key");
    if (key.size() > kMaxNameBytes) {
      return refused("the attribute key ", Quoted(key), " has ", key.size(), " bytes; at most ", kMaxNameBytes,
                     " are allowed");
    }
    num_bytes += key.size() + value.size();
  }
  if (num_bytes > kMaxAttributeBytes) {
    return refused("its attributes have ", num_bytes, " bytes; at most ", kMaxAttributeBytes, " are allowed");
  }
  return absl::OkStatus();
}

std::string TensorMetadata::ToString() const {
  std::string text = absl::StrCat("name ", Quoted(name), ", device ", device.ToString(), ", memory_format ",
                                  MemoryFormatName(memory_format), ", requires_grad ", requires_grad ? "true" : "false",
                                  ", attributes {");
  size_t shown = 0;
  for (const auto& [key, value] : attributes) {
    if (shown > 0) text += ", ";
    if (shown == kMaxShownAttributes) {
      absl::StrAppend(&text, "... (", attributes.size(), " attributes)");
      break;
    }
    absl::StrAppend(&text, Quoted(key), ": ", Quoted(value));
    ++shown;
  }
  text += '}';
  return text;
}

std::ostream& operator<<(std::ostream& out, const TensorMetadata& metadata) { return out << metadata.ToString(); }

}  // namespace tensorcask
