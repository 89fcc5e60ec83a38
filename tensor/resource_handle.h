// TensorFlow's handle to state outside the tensor: a variable, a table, an iterator. The handle only names the state:
// this library neither keeps it alive nor finds it.
//
//   ResourceHandle handle;
//   handle.device = "/job:localhost/replica:0/task:0/device:CPU:0";
//   handle.name = "v";
//   handle.dtypes_and_shapes = {{DType::kFloat32, PartialTensorShape({-1, 3})}};
//   Tensor tensor = Tensor::Scalar(handle);   // dtype resource, shape []
//
// Texts may be any bytes here. Messages hold UTF-8 only, so encoding refuses other bytes. Source: ResourceHandle of
// tensorflow/core/framework/resource_handle.h, without its pointer to an object of the process.

#ifndef TENSORCASK_TENSOR_RESOURCE_HANDLE_H_
#define TENSORCASK_TENSOR_RESOURCE_HANDLE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <string>
#include <vector>

#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/partial_shape.h"

namespace tensorcask {

struct ResourceHandle {
  // What is known of the tensor behind the handle.
  struct DtypeAndShape {
    DType dtype = DType::kInvalid;  // not known
    PartialTensorShape shape;
    friend bool operator==(const DtypeAndShape& a, const DtypeAndShape& b) {
      return a.dtype == b.dtype && a.shape == b.shape;
    }
    friend bool operator!=(const DtypeAndShape& a, const DtypeAndShape& b) { return !(a == b); }
  };

  std::string device;
  std::string container;
  std::string name;
  uint64_t hash_code = 0;       // TensorFlow's hash of the C++ type of the state
  std::string maybe_type_name;  // that type, for people
  std::vector<DtypeAndShape> dtypes_and_shapes;

  friend bool operator==(const ResourceHandle& a, const ResourceHandle& b) {
    return a.hash_code == b.hash_code && a.name == b.name && a.device == b.device && a.container == b.container &&
           a.maybe_type_name == b.maybe_type_name && a.dtypes_and_shapes == b.dtypes_and_shapes;
  }
  friend bool operator!=(const ResourceHandle& a, const ResourceHandle& b) { return !(a == b); }
};

static_assert(sizeof(ResourceHandle) == kResourceHandleBytes, "ObjectBytes says what an element takes");

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_RESOURCE_HANDLE_H_
