// A tensor decoded from a message, with its metadata.
//
//   CASK_ASSIGN_OR_RETURN(const DecodedTensor decoded, DecodeTensorWithMetadata(proto));   // tensor_codec.h
//   CASK_ASSIGN_OR_RETURN(const Tensor tensor, decoded.view.ToTensor());
//   decoded.metadata.name   // "encoder.weight"

#ifndef TENSORCASK_SERIALIZE_WIRE_DECODED_TENSOR_H_
#define TENSORCASK_SERIALIZE_WIRE_DECODED_TENSOR_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// What to do with a tensor whose metadata cannot be read (an unknown device, for example).
enum class UnreadableMetadata : uint8_t {
  kRefuse,  // it is an error
  kSkip,    // the tensor comes without the metadata fields that cannot be read; DecodedTensor::metadata_status tells
};

struct DecodedTensor {
  TensorView view;  // dense; row-major unless the message has strides. view.ToTensor() copies nothing if row-major
  TensorMetadata metadata;
  std::shared_ptr<const PayloadHeader> payload = nullptr;  // how the elements were encoded; null if they were not
  // Not OK only with DecodeOptions::unreadable_metadata kSkip: why `metadata` lacks a field that the message has.
  absl::Status metadata_status = absl::OkStatus();
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_DECODED_TENSOR_H_
