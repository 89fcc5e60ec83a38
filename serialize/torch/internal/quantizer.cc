#include "tensorcask/serialize/torch/internal/quantizer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/torch/internal/globals.h"
#include "tensorcask/serialize/torch/internal/stored_tensors.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::torch {
namespace {

constexpr absl::string_view kScheme = "torch.qscheme";
constexpr absl::string_view kScale = "torch.scale";
constexpr absl::string_view kZeroPoint = "torch.zero_point";
constexpr absl::string_view kAxis = "torch.axis";

absl::StatusOr<absl::string_view> AttributeOf(const TensorMetadata& metadata, absl::string_view name) {
  const auto found = metadata.attributes.find(name);
  if (found != metadata.attributes.end()) return absl::string_view(found->second);
  return absl::InvalidArgumentError(
      absl::StrCat("has no attribute ", Quoted(name), ": quantized elements need the scheme and the scale"));
}

absl::Status BadAttribute(absl::string_view name, absl::string_view text, absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat("has the attribute ", Quoted(name), " of ", Quoted(text), "; wanted ", wanted));
}

// The numbers of "0.5" or "[0.5,0.25]", none of which is infinite.
absl::StatusOr<std::vector<double>> ParseNumbers(absl::string_view name, absl::string_view text) {
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "[") && !absl::ConsumeSuffix(&rest, "]")) return BadAttribute(name, text, "a list");
  std::vector<double> numbers;
  if (rest.empty()) return numbers;
  for (const absl::string_view part : absl::StrSplit(rest, ',')) {
    double number = 0;
    if (!absl::SimpleAtod(part, &number) || !std::isfinite(number)) return BadAttribute(name, text, "finite numbers");
    numbers.push_back(number);
  }
  return numbers;
}

// The same of integers.
absl::StatusOr<std::vector<int64_t>> ParseIntegers(absl::string_view name, absl::string_view text) {
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "[") && !absl::ConsumeSuffix(&rest, "]")) return BadAttribute(name, text, "a list");
  std::vector<int64_t> numbers;
  if (rest.empty()) return numbers;
  for (const absl::string_view part : absl::StrSplit(rest, ',')) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(part, &number)) return BadAttribute(name, text, "integers");
    numbers.push_back(number);
  }
  return numbers;
}

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
absl::Status AddQuantizer(const Pickle& pickle, Ref parameters, const TensorShape& shape,
                          absl::FunctionRef<absl::StatusOr<Tensor>(Ref)> read, TensorMetadata* metadata) {
  const absl::Span<const Ref> items = pickle.items(parameters);
  const Object* const axis = items.size() > 3 ? &pickle.object(items[3]) : nullptr;
  const bool has_channels =
      axis != nullptr && axis->kind == Object::Kind::kInt && axis->integer >= 0 && axis->integer < shape.rank();
  metadata->attributes[std::string(kScheme)] = std::string(pickle.globals[pickle.object(items[0]).index].name);
  static constexpr absl::string_view kNames[] = {"", kScale, kZeroPoint, kAxis};
  for (size_t i = 1; i < items.size(); ++i) {
    const Object& parameter = pickle.object(items[i]);
    if (parameter.kind == Object::Kind::kTensor) {
      const TensorShape wanted({has_channels ? shape.dim(static_cast<int>(axis->integer)) : 0});
      if (const TensorShape found = PlaceOf(pickle, items[i]).layout.shape(); !has_channels || found != wanted) {
        return absl::DataLossError(
            absl::StrCat(kNames[i], " is a tensor ", found.ToString(), "; ",
                         has_channels ? absl::StrCat("wanted ", wanted.ToString(), ", one number for each channel")
                                      : "the quantizer has no axis of channels"));
      }
      CASK_ASSIGN_OR_RETURN(const Tensor numbers, read(items[i]));
      metadata->attributes[std::string(kNames[i])] = NumbersText(numbers);
    } else if (parameter.kind == Object::Kind::kFloat || parameter.kind == Object::Kind::kInt) {
      ValueTree tree;
      if (parameter.kind == Object::Kind::kFloat) {
        tree.AddFloat(parameter.real);
      } else {
        tree.AddInt(parameter.integer);
      }
      CASK_ASSIGN_OR_RETURN(metadata->attributes[std::string(kNames[i])], ValueToJson(tree.root()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Quantizer> ParseQuantizer(const TensorMetadata& metadata, const TensorShape& shape) {
  Quantizer quantizer;
  CASK_ASSIGN_OR_RETURN(const absl::string_view scheme, AttributeOf(metadata, kScheme));
  CASK_ASSIGN_OR_RETURN(const absl::string_view scales, AttributeOf(metadata, kScale));
  CASK_ASSIGN_OR_RETURN(const absl::string_view zero_points, AttributeOf(metadata, kZeroPoint));
  const Global* const global = FindGlobal(scheme);
  if (global == nullptr || global->use != GlobalUse::kScheme) {
    return BadAttribute(kScheme, scheme, "a scheme of PyTorch, such as torch.per_tensor_affine");
  }
  quantizer.scheme = std::string(scheme);
  quantizer.per_channel = absl::StartsWith(scheme, "torch.per_channel");
  CASK_ASSIGN_OR_RETURN(quantizer.scales, ParseNumbers(kScale, scales));
  size_t num_zero_points = 0;
  if (quantizer.per_channel && absl::StrContains(zero_points, '.')) {
    CASK_ASSIGN_OR_RETURN(quantizer.float_zero_points, ParseNumbers(kZeroPoint, zero_points));
    num_zero_points = quantizer.float_zero_points.size();
  } else {
    CASK_ASSIGN_OR_RETURN(quantizer.zero_points, ParseIntegers(kZeroPoint, zero_points));
    num_zero_points = quantizer.zero_points.size();
  }
  int64_t channels = 1;
  if (quantizer.per_channel) {
    CASK_ASSIGN_OR_RETURN(const absl::string_view text, AttributeOf(metadata, kAxis));
    if (!absl::SimpleAtoi(text, &quantizer.axis) || quantizer.axis < 0 || quantizer.axis >= shape.rank()) {
      return BadAttribute(kAxis, text, absl::StrCat("an axis of the shape ", shape.ToString()));
    }
    channels = shape.dim(static_cast<int>(quantizer.axis));
  }
  if (static_cast<int64_t>(quantizer.scales.size()) != channels || num_zero_points != quantizer.scales.size()) {
    return absl::InvalidArgumentError(absl::StrCat("has ", quantizer.scales.size(), " scales and ", num_zero_points,
                                                   " zero points; wanted ", channels, " of each"));
  }
  return quantizer;
}

bool IsOfQuantizer(absl::string_view attribute) {
  return attribute == kScheme || attribute == kScale || attribute == kZeroPoint || attribute == kAxis;
}

}  // namespace tensorcask::torch
