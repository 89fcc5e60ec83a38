#include "tensorcask/serialize/wire/message/tensor_decoder.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/protowire/message_rules.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/wire/message/extension_writer.h"
#include "tensorcask/serialize/wire/message/internal/value_traits.h"
#include "tensorcask/serialize/wire/message/layout_decoder.h"
#include "tensorcask/serialize/wire/message/message_form.h"
#include "tensorcask/serialize/wire/message/metadata_decoder.h"
#include "tensorcask/serialize/wire/message/object_decoder.h"
#include "tensorcask/serialize/wire/message/object_encoder.h"
#include "tensorcask/serialize/wire/message/payload_field.h"
#include "tensorcask/tensor/base/bool_bytes.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/copy_bytes.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/varint.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype_visit.h"

namespace tensorcask::internal {
namespace {

// The typed field for values of `dtype`. Requires: one of TensorFlow's dtypes.
ValueField FieldOf(DType dtype) {
  if (IsObject(dtype)) return static_cast<ValueField>(ObjectFieldNumber(dtype));
  ValueField field = ValueField::kFloat;
  VisitDType(dtype, [&field](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kHasValueTraits<T>) field = ValueTraits<T>::kField;
    return absl::OkStatus();
  }).IgnoreError();
  return field;
}

// Calls fn(ValueTraits<T>()) for the element type T of `dtype`. Requires: a fixed-size dtype of TensorFlow.
template <typename Fn>
absl::Status VisitTraits(DType dtype, Fn&& fn) {
  return VisitDType(dtype, [&fn](auto tag) -> absl::Status {
    using T = typename decltype(tag)::type;
    if constexpr (kHasValueTraits<T>) {
      return fn(ValueTraits<T>());
    } else {
      return absl::InternalError("a dtype that TensorFlow does not have has no typed field");
    }
  });
}

// Calls fn(value) for the values of `field`, whose type is int32, in order, until it returns false.
template <typename Fn>
void ForEachInt32(const TensorFields& fields, ValueField field, Fn&& fn) {
  fields.ForEachRun(field, [&fn](const ValueRun& run) {
    switch (run.form) {
      case ValueRun::Form::kArray: {
        const char* data = static_cast<const char*>(run.data);
        for (size_t i = 0; i < run.count; ++i) {
          int32_t value;
          std::memcpy(&value, data + i * sizeof(value), sizeof(value));
          if (!fn(value)) return false;
        }
        return true;
      }
      case ValueRun::Form::kPacked: {
        bool more = true;
        ForEachVarint(run.bytes, [&fn, &more](uint64_t number) { return more = fn(static_cast<int32_t>(number)); });
        return more;
      }
      case ValueRun::Form::kOne:
        break;
    }
    return static_cast<bool>(fn(static_cast<int32_t>(run.number)));
  });
}

}  // namespace

// ---- Checking -------------------------------------------------------------------------------------------------------

absl::Status TensorDecoder::Check() {
  own_quota_.Reset();
  CASK_RETURN_IF_ERROR(CheckThis());
  return IsObject(dtype_) ? CheckInsideObjects() : absl::OkStatus();
}

absl::Status TensorDecoder::CheckThis() {
  CASK_ASSIGN_OR_RETURN(shape_, ShapeFromFields(fields_.shape, options_.lenient));
  CASK_RETURN_IF_ERROR(CheckForm());
  CASK_RETURN_IF_ERROR(CheckLayout());
  if (is_encoded()) return CheckPayload();
  CASK_RETURN_IF_ERROR(CheckOtherFields());
  // For a tensor without elements TensorFlow does not read the content.
  uses_content_ = !fields_.content.empty() && !(options_.lenient && !is_extension_only() && shape_.num_elements() == 0);
  return IsObject(dtype_) ? CheckObjects() : CheckFixedSize();
}

absl::Status TensorDecoder::CheckForm() {
  CASK_ASSIGN_OR_RETURN(const FormAndDType found, FindForm(fields_));
  form_ = found.form;
  dtype_ = found.dtype;
  return absl::OkStatus();
}

absl::Status TensorDecoder::CheckLayout() {
  CASK_ASSIGN_OR_RETURN(layout_, DecodeLayout(fields_.extension, shape_));
  return absl::OkStatus();
}

absl::Status TensorDecoder::CheckOtherFields() const {
  if (options_.lenient || is_extension_only()) return absl::OkStatus();  // FindForm has found no typed fields
  const ValueField wanted = FieldOf(dtype_);
  for (uint32_t number = kFirstValueField; number <= kLastValueField; ++number) {
    const auto field = static_cast<ValueField>(number);
    if (field == wanted || fields_.count(field) == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(ValueFieldName(field), " has ", fields_.count(field),
                                                   " values; the values of ", DTypeName(dtype_), " belong in ",
                                                   ValueFieldName(wanted)));
  }
  return absl::OkStatus();
}

absl::Status TensorDecoder::CheckFixedSize() {
  const auto element_bytes = static_cast<int64_t>(ElementSize(dtype_));
  const std::optional<int64_t> bytes = CheckedMul(shape_.num_elements(), element_bytes);
  if (uses_content_ || is_extension_only()) {
    CASK_RETURN_IF_ERROR(CheckContent());
    return CheckLimits(bytes, 0);
  }
  CASK_RETURN_IF_ERROR(VisitTraits(dtype_, [this](auto traits) -> absl::Status {
    CASK_RETURN_IF_ERROR(CheckCount(traits.kField, traits.kScalars));
    using Traits = decltype(traits);
    if constexpr (Traits::kAllFit) {
      return absl::OkStatus();
    } else {
      return CheckRange(Traits::kField, Traits::kLeast, Traits::kMost);
    }
  }));
  return CheckLimits(bytes, CheckedMul(shape_.num_elements() - static_cast<int64_t>(num_given_), element_bytes));
}

absl::Status TensorDecoder::CheckContent() const {
  const absl::string_view content = fields_.content;
  const std::optional<int64_t> wanted = CheckedMul(shape_.num_elements(), static_cast<int64_t>(ElementSize(dtype_)));
  if (!wanted || content.size() != static_cast<uint64_t>(*wanted)) {
    return absl::InvalidArgumentError(absl::StrCat("tensor_content has ", content.size(), " bytes; ", Describe(),
                                                   " needs ", wanted ? absl::StrCat(*wanted) : "more than 2^63"));
  }
  if (dtype_ == DType::kBool) return Annotate(CheckBools(content), "tensor_content");
  return absl::OkStatus();
}

absl::Status TensorDecoder::CheckCount(ValueField field, size_t values_per_element) {
  const size_t count = fields_.count(field);
  if (count % values_per_element != 0 && !options_.lenient) {
    return absl::InvalidArgumentError(
        absl::StrCat(ValueFieldName(field), " has ", count, " values; ", DTypeName(dtype_), " needs two per element"));
  }
  const auto num_elements = static_cast<uint64_t>(shape_.num_elements());
  if (count / values_per_element > num_elements && !options_.lenient) {
    return absl::InvalidArgumentError(absl::StrCat(ValueFieldName(field), " has ", count, " values; ", Describe(),
                                                   " has room for ", num_elements * values_per_element));
  }
  num_given_ = std::min<uint64_t>(count / values_per_element, num_elements);
  return absl::OkStatus();
}

absl::Status TensorDecoder::CheckRange(ValueField field, int32_t least, int32_t most) const {
  if (options_.lenient) return absl::OkStatus();
  size_t index = 0;
  int32_t bad = 0;
  bool fits = true;
  ForEachInt32(fields_, field, [&](int32_t value) {
    fits = value >= least && value <= most;
    if (fits) {
      ++index;
    } else {
      bad = value;
    }
    return fits;
  });
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(ValueFieldName(field), "[", index, "] is ", bad, ", which does not fit ", DTypeName(dtype_)));
}

absl::Status TensorDecoder::CheckPayload() {
  const absl::string_view payload = fields_.extension.payload;
  CASK_ASSIGN_OR_RETURN(PayloadReader reader, OpenPayloadField(payload, dtype_, shape_, options_));
  const PayloadHeader& header = reader.header();
  const size_t element_bytes = IsObject(dtype_) ? ObjectBytes(dtype_) : ElementSize(dtype_);
  std::optional<int64_t> bytes = CheckedMul(shape_.num_elements(), static_cast<int64_t>(element_bytes));
  if (bytes) bytes = CheckedAdd(*bytes, static_cast<int64_t>(header.characters));
  std::optional<int64_t> unbacked = UnbackedPayloadBytes(header.decoded_bytes(), payload.size(), options_.limits);
  // Each length of a string becomes an object.
  if (IsObject(dtype_)) unbacked = CheckedMul(*unbacked, static_cast<int64_t>(ObjectBytes(dtype_) / sizeof(uint64_t)));
  CASK_RETURN_IF_ERROR(CheckLimits(bytes, unbacked));
  CASK_RETURN_IF_ERROR(SetPayloadBase(options_.base.get(), fields_.extension.name, &reader));
  payload_ = std::move(reader);
  return absl::OkStatus();
}

// ---- Objects --------------------------------------------------------------------------------------------------------

absl::Status TensorDecoder::ForEachObject(ObjectVisitor visit) const {
  absl::Status status;
  if (!uses_content_) {
    size_t index = 0;
    fields_.ForEachRun(FieldOf(dtype_), [&](const ValueRun& run) {
      if (index == num_given_) return false;
      status = visit(index++, run.bytes);
      return status.ok();
    });
    return status;
  }
  const auto num_elements = static_cast<size_t>(shape_.num_elements());
  absl::string_view lengths = fields_.content;
  absl::string_view objects = lengths;
  uint64_t length = 0;
  for (size_t i = 0; i < num_elements; ++i) ParseVarint(&objects, &length);
  for (size_t i = 0; i < num_elements && status.ok(); ++i) {
    ParseVarint(&lengths, &length);
    status = visit(i, objects.substr(0, static_cast<size_t>(length)));
    objects.remove_prefix(static_cast<size_t>(length));
  }
  return status;
}

absl::Status TensorDecoder::CheckObjects() {
  const auto object_bytes = static_cast<int64_t>(ObjectBytes(dtype_));
  const int64_t num_elements = shape_.num_elements();
  if (uses_content_) {
    CASK_RETURN_IF_ERROR(CheckObjectList());
    num_given_ = static_cast<size_t>(num_elements);
  } else {
    CASK_RETURN_IF_ERROR(CheckCount(FieldOf(dtype_), 1));
  }
  int64_t characters = 0;
  int64_t filled_bytes = object_bytes;  // the size of each object that the fill rules make
  if (dtype_ == DType::kString) {
    int64_t last_bytes = 0;
    CASK_RETURN_IF_ERROR(ForEachObject([&](size_t, absl::string_view bytes) {
      last_bytes = static_cast<int64_t>(bytes.size());
      characters += last_bytes;
      return absl::OkStatus();
    }));
    filled_bytes += last_bytes;
  }
  const auto num_given = static_cast<int64_t>(num_given_);
  const std::optional<int64_t> unbacked = CheckedMul(num_elements - num_given, filled_bytes);
  std::optional<int64_t> bytes = unbacked;
  if (bytes) bytes = CheckedAdd(*bytes, characters);
  if (bytes) bytes = CheckedAdd(*bytes, num_given * object_bytes);
  return CheckLimits(bytes, unbacked);
}

absl::Status TensorDecoder::CheckObjectList() const {
  const auto num_elements = static_cast<uint64_t>(shape_.num_elements());
  absl::string_view rest = fields_.content;
  if (rest.size() < num_elements || num_elements == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor_content has ", rest.size(), " bytes; ", Describe(),
                     num_elements == 0 ? " needs 0" : " needs a length for each element"));
  }
  uint64_t total = 0;
  for (uint64_t i = 0; i < num_elements; ++i) {
    uint64_t length = 0;
    if (!ParseVarint(&rest, &length) || length > std::numeric_limits<uint32_t>::max()) {
      return absl::InvalidArgumentError(absl::StrCat("tensor_content: the length of ", DTypeName(dtype_), " ", i,
                                                     " is cut short or does not fit 32 bits"));
    }
    total += length;
    if (total > fields_.content.size()) break;  // refused below; the sum cannot overflow
  }
  if (total != rest.size()) {
    return absl::InvalidArgumentError(absl::StrCat("tensor_content has ", rest.size(), " bytes after the lengths of ",
                                                   Describe(), "; the lengths sum to ",
                                                   total > fields_.content.size() ? "at least " : "", total));
  }
  return absl::OkStatus();
}

ObjectDecoding TensorDecoder::Objects() const {
  return {options_, max_depth_ - 1, !uses_content_ && fields_.messages_are_checked, quota_};
}

absl::Status TensorDecoder::CheckInsideObjects() const {
  if (dtype_ == DType::kString) return absl::OkStatus();
  return VisitObjectDType(dtype_, [this](auto tag) {
    return ForEachObject([this, tag](size_t index, absl::string_view bytes) {
      absl::Status status = CheckObject(tag, bytes, Objects());
      if (status.ok()) return status;
      return Annotate(status, absl::StrCat(DTypeName(dtype_), " ", index));
    });
  });
}

absl::Status TensorDecoder::CheckLimits(std::optional<int64_t> bytes, std::optional<int64_t> unbacked) const {
  if (quota_ == nullptr) return absl::OkStatus();
  const absl::Status within = quota_->Charge(bytes, unbacked);
  return within.ok() ? within : Annotate(within, Describe());
}

std::string TensorDecoder::Describe() const { return absl::StrCat(DTypeName(dtype_), " ", shape_.ToString()); }

// ---- Writing elements -----------------------------------------------------------------------------------------------

absl::StatusOr<TensorView> TensorDecoder::NewView() const {
  CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(dtype_, shape_, options_.allocator));
  CASK_RETURN_IF_ERROR(tensor.EnsureMutable());
  CASK_RETURN_IF_ERROR(Write(&tensor));
  if (is_row_major()) return TensorView(tensor);
  return TensorView::Create(tensor.buffer(), dtype_, layout_);
}

absl::StatusOr<TensorView> TensorDecoder::DecodeView() {
  CASK_RETURN_IF_ERROR(Check());
  return NewView();
}

absl::StatusOr<Tensor> TensorDecoder::NewTensor() const {
  CASK_ASSIGN_OR_RETURN(const TensorView view, NewView());
  if (!target_.is_device()) return view.ToTensor();
  CASK_ASSIGN_OR_RETURN(TensorView moved, view.Contiguous());
  CASK_RETURN_IF_ERROR(target_.Move(&moved));
  return moved.ToTensor();
}

absl::StatusOr<Tensor> TensorDecoder::Decode() {
  CASK_RETURN_IF_ERROR(Check());
  return NewTensor();
}

absl::StatusOr<Tensor> TensorDecoder::DecodeChecked() {
  CASK_RETURN_IF_ERROR(CheckThis());
  return NewTensor();
}

absl::StatusOr<DecodedTensor> TensorDecoder::DecodeWithMetadata() {
  CASK_RETURN_IF_ERROR(Check());
  return DecodeCheckedWithMetadata();
}

absl::StatusOr<DecodedTensor> TensorDecoder::DecodeCheckedWithMetadata() {
  DecodedTensor decoded;
  CASK_RETURN_IF_ERROR(SetMetadata(&decoded));
  CASK_ASSIGN_OR_RETURN(decoded.view, NewView());
  CASK_RETURN_IF_ERROR(target_.Move(&decoded.view));
  if (is_encoded()) decoded.payload = std::make_shared<PayloadHeader>(payload_->header());
  return decoded;
}

absl::Status TensorDecoder::SetMetadata(DecodedTensor* decoded) const {
  absl::Status status = DecodeReadableMetadata(fields_, dtype_, shape_.rank(), options_, &decoded->metadata);
  if (options_.unreadable_metadata == UnreadableMetadata::kRefuse) return status;
  decoded->metadata_status = std::move(status);
  return absl::OkStatus();
}

absl::StatusOr<DecodedTensor> TensorDecoder::DecodeInPlace(const RefPtr<RefCounted>& owner, bool writable) {
  CASK_RETURN_IF_ERROR(Check());
  const absl::string_view content = fields_.content;
  const bool in_place = uses_content_ && IsFixedSize(dtype_) &&
                        reinterpret_cast<uintptr_t>(content.data()) % ElementAlignment(dtype_) == 0;
  if (!in_place) return DecodeCheckedWithMetadata();
  DecodedTensor decoded;
  CASK_RETURN_IF_ERROR(SetMetadata(&decoded));
  if (fields_.extension.crc32c != 0) CASK_RETURN_IF_ERROR(CheckCrc32c(Crc32c(content)));
  TensorBuffer::External memory;
  memory.data = const_cast<char*>(content.data());
  memory.size_bytes = content.size();
  memory.writable = writable;
  memory.release = [owner] {};
  memory.allocator = options_.allocator;
  CASK_ASSIGN_OR_RETURN(decoded.view,
                        TensorView::Create(TensorBuffer::WrapExternal(std::move(memory)), dtype_, layout_));
  CASK_RETURN_IF_ERROR(target_.Move(&decoded.view));
  return decoded;
}

absl::Status TensorDecoder::CheckCrc32c(uint32_t found) const {
  const uint32_t wanted = fields_.extension.crc32c;
  if (StoredCrc32c(found) == wanted) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the elements of ", Describe(), " have the masked crc32c 0x",
                                          absl::Hex(StoredCrc32c(found), absl::kZeroPad8), "; the message says 0x",
                                          absl::Hex(wanted, absl::kZeroPad8)));
}

absl::Status TensorDecoder::WritePayload(TensorView* out) const {
  CASK_RETURN_IF_ERROR(out->EnsureMutable());
  CASK_RETURN_IF_ERROR(ReadPayloadField(*payload_, out));
  if (fields_.extension.crc32c == 0) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(const uint32_t crc, ViewCrc32c(*out));
  return CheckCrc32c(crc);
}

absl::Status TensorDecoder::Write(Tensor* out) const {
  if (is_encoded()) {
    TensorView view(*out);
    return WritePayload(&view);
  }
  CASK_RETURN_IF_ERROR(out->EnsureMutable());
  const bool checked = fields_.extension.crc32c != 0;
  if (IsObject(dtype_)) {
    CASK_RETURN_IF_ERROR(VisitObjectDType(
        dtype_, [this, out](auto tag) { return WriteObjects(out->mutable_data<typename decltype(tag)::type>()); }));
    if (checked && uses_content_) return CheckCrc32c(Crc32c(fields_.content));
  } else if (uses_content_) {
    const absl::string_view content = fields_.content;
    char* elements = out->mutable_bytes().data();
    if (checked) return CheckCrc32c(CopyAndExtendCrc32c(0, content.data(), elements, content.size()));
    CopyBytes(elements, content.data(), content.size());
  } else if (!is_extension_only()) {  // an extension-only message without content has no elements
    CASK_RETURN_IF_ERROR(VisitTraits(dtype_, [this, out](auto traits) {
      WriteValues<decltype(traits)>(out->mutable_bytes().data());
      return absl::OkStatus();
    }));
  }
  return checked ? CheckCrc32c(TensorCrc32c(*out)) : absl::OkStatus();
}

template <typename Traits>
void TensorDecoder::WriteValues(char* out) const {
  using Scalar = typename Traits::Scalar;
  constexpr bool kSameBytes = std::is_same_v<Scalar, typename Traits::Value>;  // the values may be copied as bytes
  auto* const begin = reinterpret_cast<Scalar*>(out);
  Scalar* next = begin;
  Scalar* const given_end = begin + num_given_ * Traits::kScalars;
  fields_.ForEachRun(Traits::kField, [&next, given_end](const ValueRun& run) {
    const auto room = static_cast<size_t>(given_end - next);
    const bool is_array = run.form == ValueRun::Form::kArray;
    if (kSameBytes && (is_array || (run.form == ValueRun::Form::kPacked && Traits::kForm == ValueForm::kFixed))) {
      const size_t count = std::min(room, is_array ? run.count : run.bytes.size() / sizeof(Scalar));
      CopyBytes(next, is_array ? run.data : run.bytes.data(), count * sizeof(Scalar));
      next += count;
    } else if (is_array) {
      const auto* values = static_cast<const typename Traits::Value*>(run.data);
      const size_t count = std::min(room, run.count);
      for (size_t i = 0; i < count; ++i) next[i] = Traits::FromValue(values[i]);
      next += count;
    } else if (run.form == ValueRun::Form::kPacked) {
      ForEachVarint(run.bytes, [&next, given_end](uint64_t number) {
        if (next == given_end) return false;
        *next++ = Traits::FromValue(Traits::FromVarint(number));
        return true;
      });
    } else if (next < given_end) {
      *next++ = Traits::FromValue(Traits::FromVarint(run.number));
    }
    return next < given_end;
  });
  Scalar* const end = begin + static_cast<size_t>(shape_.num_elements()) * Traits::kScalars;
  if (num_given_ == 0) {
    std::fill(next, end, Scalar{0});
  } else if constexpr (Traits::kScalars == 1) {
    std::fill(next, end, given_end[-1]);
  } else {
    for (; next < end; ++next) *next = next[-Traits::kScalars];
  }
}

template <typename T>
absl::Status TensorDecoder::WriteObjects(T* out) const {
  CASK_RETURN_IF_ERROR(ForEachObject([this, out](size_t index, absl::string_view bytes) {
    absl::Status status = DecodeObject(bytes, Objects(), &out[index]);
    if (status.ok()) return status;
    return Annotate(status, absl::StrCat(DTypeName(dtype_), " ", index));
  }));
  // The last string fills the rest; the other objects do not repeat.
  const bool repeats = dtype_ == DType::kString && num_given_ > 0;
  for (auto i = num_given_; i < static_cast<size_t>(shape_.num_elements()); ++i) out[i] = repeats ? out[i - 1] : T();
  return absl::OkStatus();
}

}  // namespace tensorcask::internal
