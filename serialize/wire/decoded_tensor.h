// A tensor as it comes out of a message, with what travelled beside it.

#ifndef TENSORCASK_SERIALIZE_WIRE_DECODED_TENSOR_H_
#define TENSORCASK_SERIALIZE_WIRE_DECODED_TENSOR_H_

#include <memory>

#include "tensorcask/serialize/payload/payload_head.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct DecodedTensor {
  TensorView view;  // dense; row-major unless the message says otherwise. view.ToTensor() costs nothing if it is
  TensorMetadata metadata;
  std::shared_ptr<const PayloadHead> payload = nullptr;  // how the elements were encoded; null if they were not
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_DECODED_TENSOR_H_
