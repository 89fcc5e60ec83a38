#include "tensorcask/serialize/payload/internal/element_streams.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/changing_memory.h"
#include "tensorcask/tensor/strided/row_major_range.h"

namespace tensorcask::payload {
namespace {

constexpr size_t kLengthBytes = 8;

}  // namespace

absl::StatusOr<ElementStreams> ElementStreams::Of(const TensorView& view) {
  const bool strings = view.dtype() == DType::kString;
  if (!strings && !IsFixedSize(view.dtype())) {
    return absl::UnimplementedError(absl::StrCat("dtype ", DTypeName(view.dtype()), " has no form as a payload"));
  }
  const auto elements = static_cast<uint64_t>(view.num_elements());
  ElementStreams streams(view);
  const std::optional<int64_t> first_bytes =
      CheckedMul(view.num_elements(), static_cast<int64_t>(strings ? kLengthBytes : view.element_size()));
  if (!first_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(view.ToString(), ": elements take 2^63 bytes or more"));
  }
  streams.first_bytes_ = static_cast<uint64_t>(*first_bytes);
  if (elements == 0) return streams;
  CASK_RETURN_IF_ERROR(view.buffer()->CheckReadable());
  streams.may_change_ = internal::MayChange(view);
  if (!strings) return streams;
  CASK_ASSIGN_OR_RETURN(streams.view_, view.Contiguous());
  CASK_ASSIGN_OR_RETURN(streams.ends_, TensorBuffer::Allocate(streams.first_bytes_));
  const std::string* const text = streams.view_.data<std::string>();
  auto* const ends = static_cast<uint64_t*>(streams.ends_->mutable_data());
  for (uint64_t i = 0; i < elements; ++i) ends[i] = streams.characters_ += text[i].size();
  if (streams.characters_ > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) - streams.first_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat(view.ToString(), ": strings take 2^63 bytes or more"));
  }
  return streams;
}

absl::StatusOr<absl::string_view> ElementStreams::Read(int stream, uint64_t begin, size_t size,
                                                       Scratch* scratch) const {
  const bool fixed_size = IsFixedSize(view_.dtype());
  if (fixed_size && view_.IsContiguous() && !may_change_) return view_.bytes().substr(begin, size);
  CASK_RETURN_IF_ERROR(scratch->Reserve(size));
  const absl::Span<char> out(scratch->data(), size);
  if (fixed_size && view_.IsContiguous()) {
    std::memcpy(out.data(), view_.bytes().data() + begin, size);
  } else if (fixed_size) {
    CopyRowMajorRange(view_, static_cast<int64_t>(begin / view_.element_size()), out);
  } else if (stream == 0) {
    CopyLengths(begin, out);
  } else {
    CopyCharacters(begin, out);
  }
  return absl::string_view(out.data(), size);
}

void ElementStreams::CopyLengths(uint64_t begin, absl::Span<char> out) const {
  const std::string* text = view_.data<std::string>() + begin / kLengthBytes;
  for (size_t at = 0; at < out.size(); at += kLengthBytes, ++text) {
    StoreLittleEndian<uint64_t>(text->size(), &out[at]);  // NOLINT(clang-analyzer-core.CallAndMessage): there are some
  }
}

void ElementStreams::CopyCharacters(uint64_t begin, absl::Span<char> out) const {
  const std::string* const text = view_.data<std::string>();
  // The first string that ends after `begin`.
  auto i = static_cast<size_t>(std::upper_bound(ends(), ends() + view_.num_elements(), begin) - ends());
  size_t from = text[i].size() - static_cast<size_t>(ends()[i] - begin);
  while (!out.empty()) {
    const size_t count = std::min(text[i].size() - from, out.size());
    std::memcpy(out.data(), text[i].data() + from, count);
    out.remove_prefix(count);
    from = 0;
    ++i;
  }
}

}  // namespace tensorcask::payload
