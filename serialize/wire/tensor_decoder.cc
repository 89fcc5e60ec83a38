#include "tensorcask/serialize/wire/tensor_decoder.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/wire/content_bytes.h"
#include "tensorcask/serialize/wire/copy_bytes.h"
#include "tensorcask/serialize/wire/metadata_decoder.h"
#include "tensorcask/serialize/wire/value_traits.h"
#include "tensorcask/serialize/wire/wire_reader.h"
#include "tensorcask/serialize/wire/wire_rules.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype_visit.h"

namespace tensorcask::internal {
namespace {

constexpr int32_t kFirstReferenceDType = 101;  // TensorFlow's variables: a dtype plus 100
constexpr int32_t kLastReferenceDType = 132;

// The field in which values of `dtype` stand. Requires: one of TensorFlow's dtypes.
ValueField FieldOf(DType dtype) {
  ValueField field = ValueField::kString;
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
      return absl::InternalError("a dtype that TensorFlow lacks has no typed field");
    }
  });
}

// Calls fn(value) for the values of `field`, in order, until it returns false.
template <typename Traits, typename Fn>
void ForEachValue(const TensorFields& fields, Fn&& fn) {
  using Value = typename Traits::Value;
  fields.ForEachRun(Traits::kField, [&fn](const ValueRun& run) {
    switch (run.form) {
      case ValueRun::Form::kArray: {
        const char* data = static_cast<const char*>(run.data);
        for (size_t i = 0; i < run.count; ++i) {
          Value value;
          std::memcpy(&value, data + i * sizeof(Value), sizeof(Value));
          if (!fn(value)) return false;
        }
        return true;
      }
      case ValueRun::Form::kPacked: {
        bool more = true;
        ForEachVarint(run.bytes, [&fn, &more](uint64_t number) { return more = fn(Traits::FromVarint(number)); });
        return more;
      }
      case ValueRun::Form::kOne:
        break;
    }
    return static_cast<bool>(fn(Traits::FromVarint(run.number)));
  });
}

}  // namespace

// ---- What is right and what is wrong --------------------------------------------------------------------------------

absl::Status TensorDecoder::Check() {
  CASK_ASSIGN_OR_RETURN(shape_, ShapeFromFields(fields_.shape, options_.lenient));
  CASK_RETURN_IF_ERROR(CheckForm());
  CASK_RETURN_IF_ERROR(CheckLayout());
  CASK_RETURN_IF_ERROR(CheckOtherFields());
  // Of a tensor without elements TensorFlow does not look at the content.
  uses_content_ = !fields_.content.empty() && !(options_.lenient && !is_guarded_ && shape_.num_elements() == 0);
  return dtype_ == DType::kString ? CheckStrings() : CheckFixedSize();
}

absl::Status TensorDecoder::CheckForm() {
  const ExtensionFields& extension = fields_.extension;
  if (fields_.dtype == 0) return CheckOwnForm();
  if (extension.dtype != 0 || extension.num_strides > 0 || extension.storage_offset != 0 || extension.has_payload) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype is ", fields_.dtype,
                     ", as in the plain form, but the extension has fields of the guarded or encoded form"));
  }
  if (fields_.dtype >= kFirstReferenceDType && fields_.dtype <= kLastReferenceDType) {
    return absl::InvalidArgumentError(absl::StrCat("dtype is ", fields_.dtype, ", a reference; wanted 1 to 32"));
  }
  const std::optional<DType> dtype = DTypeFromNumber(fields_.dtype);
  if (!dtype || fields_.dtype >= kFirstOwnDTypeNumber) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype is ", fields_.dtype, "; wanted one of TensorFlow's, 1 to 32"));
  }
  if (*dtype == DType::kResource || *dtype == DType::kVariant) {
    return absl::UnimplementedError(absl::StrCat("tensors of dtype ", DTypeName(*dtype), " are not supported"));
  }
  dtype_ = *dtype;
  return absl::OkStatus();
}

absl::Status TensorDecoder::CheckOwnForm() {
  const ExtensionFields& extension = fields_.extension;
  if (extension.dtype == 0) return absl::InvalidArgumentError("dtype is 0; wanted one of TensorFlow's, 1 to 32");
  bool has_values = false;
  for (uint32_t number = kFirstValueField; number <= kLastValueField; ++number) {
    has_values = has_values || fields_.count(static_cast<ValueField>(number)) > 0;
  }
  const bool has_strides = extension.num_strides > 0;
  const bool is_encoded =
      extension.has_payload && fields_.content.empty() && !has_strides && extension.storage_offset == 0;
  is_guarded_ = !extension.has_payload && (has_strides || extension.dtype >= kFirstOwnDTypeNumber) &&
                (has_strides || extension.storage_offset == 0);
  if (has_values || extension.dtype < 0 || is_encoded == is_guarded_) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype is 0 and the extension's dtype is ", extension.dtype,
                     ", but the other fields are those of neither the guarded nor the encoded form"));
  }
  if (is_encoded) {
    return absl::UnimplementedError("the message is in encoded form, which this build does not read");
  }
  return CheckGuardedDType();
}

absl::Status TensorDecoder::CheckGuardedDType() {
  const int32_t number = fields_.extension.dtype;
  const std::optional<DType> dtype = DTypeFromNumber(number);
  const bool is_reference = number >= kFirstReferenceDType && number <= kLastReferenceDType;
  if (!dtype && number >= kFirstOwnDTypeNumber && !is_reference) {
    return absl::UnimplementedError(absl::StrCat("extension: dtype is ", number, ", which this build does not know"));
  }
  if (!dtype || !IsFixedSize(*dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("extension: dtype is ", number, "; the guarded form holds elements of a fixed size"));
  }
  dtype_ = *dtype;
  return absl::OkStatus();
}

absl::Status TensorDecoder::CheckLayout() {
  const ExtensionFields& extension = fields_.extension;
  if (extension.num_strides == 0) {
    layout_ = Layout::RowMajor(shape_);
    return absl::OkStatus();
  }
  if (extension.num_strides != static_cast<size_t>(shape_.rank())) {
    return absl::InvalidArgumentError(
        absl::StrCat("extension: strides has ", extension.num_strides, " numbers; the shape is ", shape_.ToString()));
  }
  absl::StatusOr<Layout> layout = Layout::Create(shape_.dims(), extension.strides, extension.storage_offset);
  if (!layout.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("extension: strides: ", layout.status().message()));
  }
  // Each place of the content is one element, so that no byte goes unread and none is read twice.
  const Layout::Range bounds = layout->bounds();
  if (bounds.begin != 0 || bounds.end != layout->num_elements() || !layout->IsNonOverlappingAndDense()) {
    return absl::InvalidArgumentError(absl::StrCat("extension: strides and storage_offset, ", layout->ToString(),
                                                   ", do not give each of ", layout->num_elements(),
                                                   " elements a place of its own from 0 on"));
  }
  if (layout->num_elements() == 0 && extension.storage_offset != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("extension: storage_offset is ", extension.storage_offset, " in a tensor without elements"));
  }
  layout_ = *std::move(layout);
  return absl::OkStatus();
}

absl::Status TensorDecoder::CheckOtherFields() const {
  if (options_.lenient || is_guarded_) return absl::OkStatus();  // CheckOwnForm has seen that there are none
  const ValueField wanted = FieldOf(dtype_);
  for (uint32_t number = kFirstValueField; number <= kLastValueField; ++number) {
    const auto field = static_cast<ValueField>(number);
    if (field == wanted || fields_.count(field) == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(ValueFieldName(field), " has ", fields_.count(field),
                                                   " values; those of ", DTypeName(dtype_), " stand in ",
                                                   ValueFieldName(wanted)));
  }
  return absl::OkStatus();
}

absl::Status TensorDecoder::CheckFixedSize() {
  const auto element_bytes = static_cast<int64_t>(ElementSize(dtype_));
  const std::optional<int64_t> bytes = CheckedMul(shape_.num_elements(), element_bytes);
  if (uses_content_ || is_guarded_) {
    CASK_RETURN_IF_ERROR(CheckContent());
    return CheckLimits(bytes, 0);
  }
  CASK_RETURN_IF_ERROR(VisitTraits(dtype_, [this](auto traits) -> absl::Status {
    CASK_RETURN_IF_ERROR(CheckCount(traits.kField, traits.kScalars));
    return CheckRange<decltype(traits)>();
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
  if (dtype_ == DType::kBool) {
    uint8_t seen = 0;
    for (const char byte : content) seen |= static_cast<uint8_t>(byte);
    if (seen > 1) {
      const auto bad = std::find_if(content.begin(), content.end(), [](char c) { return c != 0 && c != 1; });
      return absl::InvalidArgumentError(absl::StrCat("tensor_content[", bad - content.begin(), "] is ",
                                                     static_cast<int>(static_cast<uint8_t>(*bad)),
                                                     "; a bool is 0 or 1"));
    }
  }
  return absl::OkStatus();
}

absl::Status TensorDecoder::CheckCount(ValueField field, size_t values_per_element) {
  const size_t count = fields_.count(field);
  if (count % values_per_element != 0 && !options_.lenient) {
    return absl::InvalidArgumentError(
        absl::StrCat(ValueFieldName(field), " has ", count, " values; ", DTypeName(dtype_), " takes two an element"));
  }
  const auto num_elements = static_cast<uint64_t>(shape_.num_elements());
  if (count / values_per_element > num_elements && !options_.lenient) {
    return absl::InvalidArgumentError(absl::StrCat(ValueFieldName(field), " has ", count, " values; ", Describe(),
                                                   " takes ", num_elements * values_per_element));
  }
  num_given_ = std::min<uint64_t>(count / values_per_element, num_elements);
  return absl::OkStatus();
}

template <typename Traits>
absl::Status TensorDecoder::CheckRange() const {
  if (Traits::kAllFit || options_.lenient) return absl::OkStatus();
  size_t index = 0;
  int64_t bad = 0;
  bool fits = true;
  ForEachValue<Traits>(fields_, [&](typename Traits::Value value) {
    fits = Traits::Fits(value);
    if (fits) {
      ++index;
    } else {
      bad = static_cast<int64_t>(value);
    }
    return fits;
  });
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(ValueFieldName(Traits::kField), "[", index, "] is ", bad,
                                                 ", which does not fit ", DTypeName(dtype_)));
}

absl::Status TensorDecoder::CheckStrings() {
  constexpr auto kObjectBytes = static_cast<int64_t>(sizeof(std::string));
  const int64_t num_elements = shape_.num_elements();
  const std::optional<int64_t> objects = CheckedMul(num_elements, kObjectBytes);
  uint64_t characters = 0;
  if (uses_content_) {
    CASK_RETURN_IF_ERROR(CheckStringContent(&characters));
    return CheckLimits(objects ? CheckedAdd(*objects, static_cast<int64_t>(characters)) : objects, 0);
  }
  CASK_RETURN_IF_ERROR(CheckCount(ValueField::kString, 1));
  size_t last_bytes = 0;
  size_t index = 0;
  fields_.ForEachRun(ValueField::kString, [&](const ValueRun& run) {
    if (index++ == num_given_) return false;
    last_bytes = run.bytes.size();
    characters += last_bytes;
    return true;
  });
  const std::optional<int64_t> unbacked =
      CheckedMul(num_elements - static_cast<int64_t>(num_given_), kObjectBytes + static_cast<int64_t>(last_bytes));
  std::optional<int64_t> bytes = unbacked;
  if (bytes) bytes = CheckedAdd(*bytes, static_cast<int64_t>(characters));
  if (bytes) bytes = CheckedAdd(*bytes, static_cast<int64_t>(num_given_) * kObjectBytes);
  return CheckLimits(bytes, unbacked);
}

absl::Status TensorDecoder::CheckStringContent(uint64_t* characters) const {
  const auto num_elements = static_cast<uint64_t>(shape_.num_elements());
  absl::string_view rest = fields_.content;
  if (rest.size() < num_elements || num_elements == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor_content has ", rest.size(), " bytes; ", Describe(),
                     num_elements == 0 ? " needs 0" : " needs a length for each element"));
  }
  for (uint64_t i = 0; i < num_elements; ++i) {
    uint64_t length = 0;
    if (!WireReader::ReadVarint(&rest, &length) || length > std::numeric_limits<uint32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor_content: the length of string ", i, " is cut short or does not fit 32 bits"));
    }
    *characters += length;
    if (*characters > fields_.content.size()) break;  // refused below; the sum cannot overflow
  }
  if (*characters != rest.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor_content has ", rest.size(), " bytes behind the lengths of ", Describe(), "; these sum to ",
                     *characters > fields_.content.size() ? "at least " : "", *characters));
  }
  return absl::OkStatus();
}

absl::Status TensorDecoder::CheckLimits(std::optional<int64_t> bytes, std::optional<int64_t> unbacked) const {
  const DecodeLimits& limits = options_.limits;
  if (!bytes || *bytes > limits.max_message_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(Describe(), " decodes to ", bytes ? absl::StrCat(*bytes) : "more than 2^63",
                     " bytes; the limit max_message_bytes is ", limits.max_message_bytes));
  }
  if (!unbacked || *unbacked > limits.max_unbacked_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(Describe(), " decodes to ", *bytes, " bytes, ", unbacked ? absl::StrCat(*unbacked) : "most",
                     " of them filled in; the limit max_unbacked_bytes is ", limits.max_unbacked_bytes));
  }
  return absl::OkStatus();
}

std::string TensorDecoder::Describe() const { return absl::StrCat(DTypeName(dtype_), " ", shape_.ToString()); }

// ---- Writing elements -----------------------------------------------------------------------------------------------

absl::StatusOr<TensorView> TensorDecoder::NewView() const {
  CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(dtype_, shape_, options_.allocator));
  CASK_RETURN_IF_ERROR(Write(&tensor));
  if (is_row_major()) return TensorView(tensor);
  return TensorView::Create(tensor.buffer(), dtype_, layout_);
}

absl::StatusOr<TensorView> TensorDecoder::DecodeView() {
  CASK_RETURN_IF_ERROR(Check());
  return NewView();
}

absl::StatusOr<Tensor> TensorDecoder::Decode() {
  CASK_RETURN_IF_ERROR(Check());
  CASK_ASSIGN_OR_RETURN(const TensorView view, NewView());
  return view.ToTensor();
}

absl::StatusOr<DecodedTensor> TensorDecoder::DecodeWithMetadata() {
  CASK_RETURN_IF_ERROR(Check());
  DecodedTensor decoded;
  CASK_ASSIGN_OR_RETURN(decoded.metadata, DecodeMetadata(fields_, dtype_, shape_.rank(), options_));
  CASK_ASSIGN_OR_RETURN(decoded.view, NewView());
  return decoded;
}

absl::StatusOr<DecodedTensor> TensorDecoder::DecodeInPlace(const RefPtr<RefCounted>& owner, bool writable) {
  CASK_RETURN_IF_ERROR(Check());
  DecodedTensor decoded;
  CASK_ASSIGN_OR_RETURN(decoded.metadata, DecodeMetadata(fields_, dtype_, shape_.rank(), options_));
  const absl::string_view content = fields_.content;
  const bool in_place = uses_content_ && IsFixedSize(dtype_) &&
                        reinterpret_cast<uintptr_t>(content.data()) % ElementAlignment(dtype_) == 0;
  if (!in_place) {
    CASK_ASSIGN_OR_RETURN(decoded.view, NewView());
    return decoded;
  }
  if (fields_.extension.crc32c != 0) CASK_RETURN_IF_ERROR(CheckCrc32c(Crc32c(content)));
  TensorBuffer::External memory;
  memory.data = const_cast<char*>(content.data());
  memory.size_bytes = content.size();
  memory.writable = writable;
  memory.release = [owner] {};
  memory.allocator = options_.allocator;
  CASK_ASSIGN_OR_RETURN(decoded.view,
                        TensorView::Create(TensorBuffer::WrapExternal(std::move(memory)), dtype_, layout_));
  return decoded;
}

absl::Status TensorDecoder::CheckCrc32c(uint32_t found) const {
  const uint32_t wanted = fields_.extension.crc32c;
  if (StoredCrc32c(found) == wanted) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the elements of ", Describe(), " have the masked crc32c 0x",
                                          absl::Hex(StoredCrc32c(found), absl::kZeroPad8), "; the message says 0x",
                                          absl::Hex(wanted, absl::kZeroPad8)));
}

absl::Status TensorDecoder::Write(Tensor* out) const {
  CASK_RETURN_IF_ERROR(out->EnsureMutable());
  const bool checked = fields_.extension.crc32c != 0;
  if (dtype_ == DType::kString) {
    auto* strings = out->mutable_data<std::string>();
    if (uses_content_) {
      WriteStringContent(strings);
    } else {
      WriteStringValues(strings);
    }
  } else if (uses_content_) {
    const absl::string_view content = fields_.content;
    char* elements = out->mutable_bytes().data();
    if (checked) return CheckCrc32c(CopyAndExtendCrc32c(0, content.data(), elements, content.size()));
    CopyBytes(elements, content.data(), content.size());
  } else if (!is_guarded_) {  // which without content has no elements
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

void TensorDecoder::WriteStringContent(std::string* out) const {
  const auto num_elements = static_cast<size_t>(shape_.num_elements());
  absl::string_view lengths = fields_.content;
  absl::string_view characters = lengths;
  uint64_t length = 0;
  for (size_t i = 0; i < num_elements; ++i) WireReader::ReadVarint(&characters, &length);
  for (size_t i = 0; i < num_elements; ++i) {
    WireReader::ReadVarint(&lengths, &length);
    out[i].assign(characters.data(), static_cast<size_t>(length));
    characters.remove_prefix(static_cast<size_t>(length));
  }
}

void TensorDecoder::WriteStringValues(std::string* out) const {
  const auto num_elements = static_cast<size_t>(shape_.num_elements());
  size_t next = 0;
  fields_.ForEachRun(ValueField::kString, [&](const ValueRun& run) {
    if (next == num_given_) return false;
    out[next++].assign(run.bytes.data(), run.bytes.size());
    return true;
  });
  for (; next < num_elements; ++next) {
    if (num_given_ == 0) {
      out[next].clear();
    } else {
      out[next] = out[num_given_ - 1];
    }
  }
}

}  // namespace tensorcask::internal
