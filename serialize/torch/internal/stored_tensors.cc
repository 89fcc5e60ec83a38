#include "tensorcask/serialize/torch/internal/stored_tensors.h"

#include <cstddef>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/check.h"

namespace tensorcask::torch {
namespace {

using Numbers = absl::InlinedVector<int64_t, 8>;

Numbers NumbersOf(const Pickle& pickle, Ref list) {
  Numbers numbers;
  for (const Ref item : pickle.items(list)) numbers.push_back(pickle.object(item).integer);
  return numbers;
}

bool HasSign(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64 || IsComplex(dtype);
}

}  // namespace

TensorPlace PlaceOf(const Pickle& pickle, Ref object) {
  TensorPlace place;
  const Object& of = pickle.object(object);
  if (of.kind == Object::Kind::kStorage) {
    const StorageView& view = pickle.views[of.index];
    place.storage = &pickle.storages[view.storage];
    place.storage_number = view.storage;
    place.dtype = place.storage->dtype;
    place.element_bytes = place.storage->element_bytes;
    place.first_byte = view.offset * place.element_bytes;
    place.layout = Layout::RowMajor(TensorShape({static_cast<int64_t>(view.num_elements)}));
    return place;
  }
  const PickledTensor& tensor = pickle.tensors[of.index];
  place.form = tensor.form;
  place.dtype = tensor.dtype;
  place.element_bytes = tensor.element_bytes;
  place.requires_grad = tensor.requires_grad;
  place.conj = tensor.conj;
  place.neg = tensor.neg;
  if (tensor.form == PickledTensor::Form::kQuantized) place.quantizer = tensor.parts;
  if (tensor.dtype_name != kNoRef) {
    const Global& name = pickle.globals[pickle.object(tensor.dtype_name).index];
    place.dtype_name = std::string(absl::StripPrefix(name.name, "torch."));
  }
  const Numbers size = NumbersOf(pickle, tensor.size);
  if (tensor.stride == kNoRef) {
    place.layout = Layout::RowMajor(*TensorShape::Create(size));  // was checked
    return place;
  }
  const absl::StatusOr<Layout> layout = Layout::Create(size, NumbersOf(pickle, tensor.stride), tensor.offset);
  CASK_CHECK(layout.ok(), "the geometry of a tensor is checked when it is made");
  place.layout = *layout;
  if (tensor.form != PickledTensor::Form::kDense && tensor.form != PickledTensor::Form::kQuantized) return place;
  const StorageView& view = pickle.views[tensor.view];
  place.storage = &pickle.storages[view.storage];
  place.storage_number = view.storage;
  place.first_byte = view.offset * place.storage->element_bytes;
  return place;
}

absl::Status WhyNotRead(const TensorPlace& place) {
  switch (place.form) {
    case PickledTensor::Form::kSparse:
      return absl::UnimplementedError("a sparse tensor; its indices and values are tensors below its name");
    case PickledTensor::Form::kMeta:
      return absl::UnimplementedError("a tensor of the device \"meta\": the file has its shape and no elements");
    case PickledTensor::Form::kWrapper:
      return absl::UnimplementedError(
          "a tensor of a class that keeps its elements in other tensors, which are below its name (of a DTensor, only "
          "the part of one process)");
    case PickledTensor::Form::kDense:
    case PickledTensor::Form::kQuantized:
      break;
  }
  if (place.dtype == DType::kInvalid) {
    return absl::UnimplementedError(absl::StrCat(
        "elements of ", place.dtype_name.empty() ? "a packed dtype (quint4x2 or quint2x4)" : place.dtype_name,
        ", which are not read"));
  }
  if ((place.neg && !HasSign(place.dtype)) || (place.conj && !IsComplex(place.dtype))) {
    return absl::UnimplementedError(
        absl::StrCat("a ", place.conj ? "conjugate" : "negative", " view of ", DTypeName(place.dtype), " elements"));
  }
  return absl::OkStatus();
}

void ApplyBits(const TensorPlace& place, Tensor* tensor) {
  if (!place.conj && !place.neg) return;
  // All dtypes here keep the sign in the top bit of their last byte.
  const bool is_complex = IsComplex(place.dtype);
  const size_t number_bytes = ElementSize(place.dtype) / (is_complex ? 2 : 1);
  const absl::Span<char> bytes = tensor->mutable_bytes();
  for (size_t number = 0; number < bytes.size() / number_bytes; ++number) {
    const bool is_imaginary = is_complex && number % 2 == 1;
    if (place.neg != (place.conj && is_imaginary)) bytes[(number + 1) * number_bytes - 1] ^= static_cast<char>(0x80);
  }
}

}  // namespace tensorcask::torch
