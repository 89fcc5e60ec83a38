#include "tensorcask/serialize/torch/internal/quantizer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::torch {
namespace {

// The numbers of a tensor, as JSON.
std::string NumbersText(const Tensor& tensor) {
  ValueTree tree;
  std::vector<ValueTree::Id> ids;
  const auto add = [&](auto tag) {
    using T = decltype(tag);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      const T value = tensor.data<T>()[i];
      ids.push_back(std::is_integral_v<T> ? tree.AddInt(static_cast<int64_t>(value))
                                          : tree.AddFloat(static_cast<double>(value)));
    }
  };
  switch (tensor.dtype()) {
    case DType::kFloat32:
      add(float{});
      break;
    case DType::kFloat64:
      add(double{});
      break;
    case DType::kInt32:
      add(int32_t{});
      break;
    case DType::kInt64:
      add(int64_t{});
      break;
    default:
      return std::string(DTypeName(tensor.dtype()));
  }
  tree.AddItems(ValueKind::kList, ids);
  return ValueToJson(tree.root()).value_or("");
}

}  // namespace

// (scheme, scale, zero point) or (scheme, scales, zero points, axis).
absl::Status AddQuantizer(const Pickle& pickle, Ref parameters, absl::FunctionRef<absl::StatusOr<Tensor>(Ref)> read,
                          TensorMetadata* metadata) {
  const std::vector<Ref>& items = pickle.items(parameters);
  metadata->attributes["torch.qscheme"] = std::string(pickle.globals[pickle.object(items[0]).index].name);
  static constexpr const char* kNames[] = {"", "torch.scale", "torch.zero_point", "torch.axis"};
  for (size_t i = 1; i < std::min(items.size(), std::size(kNames)); ++i) {
    const Object& parameter = pickle.object(items[i]);
    if (parameter.kind == Object::Kind::kTensor) {
      CASK_ASSIGN_OR_RETURN(const Tensor numbers, read(items[i]));
      metadata->attributes[kNames[i]] = NumbersText(numbers);
    } else if (parameter.kind == Object::Kind::kFloat || parameter.kind == Object::Kind::kInt) {
      ValueTree tree;
      if (parameter.kind == Object::Kind::kFloat) {
        tree.AddFloat(parameter.real);
      } else {
        tree.AddInt(parameter.integer);
      }
      CASK_ASSIGN_OR_RETURN(metadata->attributes[kNames[i]], ValueToJson(tree.root()));
    }
  }
  return absl::OkStatus();
}

}  // namespace tensorcask::torch
