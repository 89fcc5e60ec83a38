// One tensor that a server offers, as its list describes it (FORMAT.md section 2), and what a request asks.
//
//   ServedTensor w;
//   w.name = "dense/kernel";
//   w.dtype = DType::kFloat32;
//   w.shape = TensorShape({784, 10});
//   w.encoding = "plain";

#ifndef TENSORCASK_SERIALIZE_SERVE_SERVED_TENSOR_H_
#define TENSORCASK_SERIALIZE_SERVE_SERVED_TENSOR_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {

struct ServedTensor {
  std::string name;  // any bytes
  DType dtype = DType::kInvalid;
  TensorShape shape;
  std::vector<int64_t> strides;           // in elements; empty: row-major
  std::string encoding;                   // how the server's file stores it: "plain", "encoded high", ...
  uint64_t stored_bytes = 0;              // the size in that file
  std::optional<uint64_t> decoded_bytes;  // the size of the elements, if they are encoded
  bool has_metadata = false;
};

// The transport is not part of the protocol. Over a Unix socket, a request is a Message (exchange/channel.h) with this
// topic and these tensors.
struct ServeRequest {
  std::string topic;
  std::vector<DecodedTensor> tensors;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_SERVE_SERVED_TENSOR_H_
