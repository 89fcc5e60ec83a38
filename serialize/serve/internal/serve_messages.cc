#include "tensorcask/serialize/serve/internal/serve_messages.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/accessor.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::serve {
namespace {

// The tensors of a list, in order.
enum ListTensor { kVersionTensor, kNames, kEncodings, kNumbers, kSizes, kNotes, kListTensors };
// The columns of kNumbers.
enum Column { kDType, kRank, kStoredBytes, kDecodedBytes, kFlags, kColumns };
constexpr int64_t kNoDecodedBytes = -1;
constexpr int64_t kHasMetadata = 1;
constexpr int64_t kHasStrides = 2;
constexpr size_t kMaxEncodingBytes = 64;

template <typename T>
absl::StatusOr<Tensor> FromVector(std::vector<T> values, const TensorShape& shape) {
  CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(kDTypeOf<T>, shape));
  std::move(values.begin(), values.end(), tensor.mutable_data<T>());
  return tensor;
}

TensorShape Vector(size_t size) { return TensorShape({static_cast<int64_t>(size)}); }

int64_t ToNumber(uint64_t bytes) { return static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX)); }

bool IsEncoding(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxEncodingBytes && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isprint(static_cast<unsigned char>(c));
  });
}

// Takes the sizes of one tensor after the other.
class Sizes {
 public:
  Sizes(Accessor<const int64_t, 1> sizes, int64_t count) : sizes_(sizes), left_(count) {}

  absl::StatusOr<std::vector<int64_t>> Next(int64_t count) {
    if (count > left_) {
      return absl::InvalidArgumentError(absl::StrCat("has ", left_, " sizes left; wanted ", count));
    }
    std::vector<int64_t> next;
    next.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) next.push_back(sizes_[position_++]);
    left_ -= count;
    return next;
  }

  int64_t left() const { return left_; }

 private:
  const Accessor<const int64_t, 1> sizes_;
  int64_t position_ = 0;
  int64_t left_;
};

absl::Status DecodeNumbers(Accessor<const int64_t, 1> numbers, Sizes* sizes, ServedTensor* out) {
  const std::optional<DType> dtype = DTypeFromNumber(numbers[kDType]);
  if (!dtype.has_value() || *dtype == DType::kInvalid) {
    return absl::InvalidArgumentError(absl::StrCat("no dtype has the number ", numbers[kDType]));
  }
  out->dtype = *dtype;
  if (numbers[kRank] < 0 || numbers[kRank] > TensorShape::kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", numbers[kRank], "; wanted 0 to ", TensorShape::kMaxRank));
  }
  CASK_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, sizes->Next(numbers[kRank]));
  CASK_ASSIGN_OR_RETURN(out->shape, TensorShape::Create(dims));
  if (numbers[kStoredBytes] < 0 || numbers[kDecodedBytes] < kNoDecodedBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(numbers[kStoredBytes], " stored bytes, ", numbers[kDecodedBytes], " decoded bytes"));
  }
  out->stored_bytes = static_cast<uint64_t>(numbers[kStoredBytes]);
  if (numbers[kDecodedBytes] != kNoDecodedBytes) out->decoded_bytes = static_cast<uint64_t>(numbers[kDecodedBytes]);
  if ((numbers[kFlags] & ~(kHasMetadata | kHasStrides)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("unknown flags ", numbers[kFlags]));
  }
  out->has_metadata = (numbers[kFlags] & kHasMetadata) != 0;
  if ((numbers[kFlags] & kHasStrides) != 0) {
    CASK_ASSIGN_OR_RETURN(out->strides, sizes->Next(numbers[kRank]));
  }
  return absl::OkStatus();
}

}  // namespace

DecodedTensor EncodeVersion() { return {Tensor::Scalar<int64_t>(kVersion), {}}; }

absl::Status CheckVersion(absl::Span<const DecodedTensor> tensors, Side peer) {
  const absl::string_view found = peer == Side::kClient ? "client" : "server";
  const absl::string_view own = peer == Side::kClient ? "server" : "client";
  constexpr char kAdvice[] = "use the same version of Tensorcask on both sides";
  if (tensors.empty() || tensors[0].view.dtype() != DType::kInt64 || tensors[0].view.rank() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the ", found,
                                                   " names no version of the protocol of served tensors, "
                                                   "this ",
                                                   own, " speaks version ", kVersion, "; ", kAdvice));
  }
  CASK_ASSIGN_OR_RETURN(const Tensor tensor, tensors[0].view.ToTensor());
  const int64_t version = *tensor.data<int64_t>();
  if (version == kVersion) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("the ", found, " speaks version ", version,
                                               " of the protocol of served tensors, this ", own, " version ", kVersion,
                                               "; ", kAdvice));
}

absl::StatusOr<std::vector<DecodedTensor>> EncodeList(absl::Span<const ServedTensor> tensors,
                                                      std::vector<std::string> notes) {
  std::vector<std::string> names;
  std::vector<std::string> encodings;
  std::vector<int64_t> numbers;
  std::vector<int64_t> sizes;
  for (const ServedTensor& tensor : tensors) {
    names.push_back(tensor.name);
    encodings.push_back(tensor.encoding);
    const std::optional<uint64_t>& decoded = tensor.decoded_bytes;
    numbers.insert(numbers.end(),
                   {DTypeNumber(tensor.dtype), tensor.shape.rank(), ToNumber(tensor.stored_bytes),
                    decoded ? ToNumber(*decoded) : kNoDecodedBytes,
                    (tensor.has_metadata ? kHasMetadata : 0) | (tensor.strides.empty() ? 0 : kHasStrides)});
    const auto dims = tensor.shape.dims();
    sizes.insert(sizes.end(), dims.begin(), dims.end());
    sizes.insert(sizes.end(), tensor.strides.begin(), tensor.strides.end());
  }
  std::vector<DecodedTensor> list(kListTensors);
  const TensorShape rows = Vector(tensors.size());
  const TensorShape table({static_cast<int64_t>(tensors.size()), kColumns});
  const TensorShape all_sizes = Vector(sizes.size());
  const TensorShape all_notes = Vector(notes.size());
  list[kVersionTensor] = EncodeVersion();
  CASK_ASSIGN_OR_RETURN(list[kNames].view, FromVector(std::move(names), rows));
  CASK_ASSIGN_OR_RETURN(list[kEncodings].view, FromVector(std::move(encodings), rows));
  CASK_ASSIGN_OR_RETURN(list[kNumbers].view, FromVector(std::move(numbers), table));
  CASK_ASSIGN_OR_RETURN(list[kSizes].view, FromVector(std::move(sizes), all_sizes));
  CASK_ASSIGN_OR_RETURN(list[kNotes].view, FromVector(std::move(notes), all_notes));
  return list;
}

absl::Status DecodeList(absl::Span<const DecodedTensor> reply, absl::FunctionRef<absl::Status(ServedTensor)> fn,
                        absl::FunctionRef<absl::Status(const std::string&)> on_note) {
  CASK_RETURN_IF_ERROR(CheckVersion(reply, Side::kServer));
  if (reply.size() != kListTensors) {
    return absl::InvalidArgumentError(absl::StrCat(reply.size(), " tensors; wanted ", int{kListTensors}));
  }
  const auto wrong = [&](absl::string_view what, ListTensor which) {
    const TensorView& found = reply[which].view;
    return absl::InvalidArgumentError(absl::StrCat("tensor ", int{which}, " is ", DTypeName(found.dtype()), " ",
                                                   found.shape().ToString(), "; wanted ", what));
  };
  const auto is = [&](ListTensor which, DType dtype, int rank) {
    return reply[which].view.dtype() == dtype && reply[which].view.rank() == rank;
  };
  if (!is(kNames, DType::kString, 1)) return wrong("strings [n]", kNames);
  const int64_t count = reply[kNames].view.dim(0);
  if (!is(kEncodings, DType::kString, 1) || reply[kEncodings].view.dim(0) != count) {
    return wrong(absl::StrCat("strings [", count, "]"), kEncodings);
  }
  if (!is(kNumbers, DType::kInt64, 2) || reply[kNumbers].view.dim(0) != count ||
      reply[kNumbers].view.dim(1) != kColumns) {
    return wrong(absl::StrCat("int64 [", count, ",", int{kColumns}, "]"), kNumbers);
  }
  if (!is(kSizes, DType::kInt64, 1)) return wrong("int64 [m]", kSizes);
  if (!is(kNotes, DType::kString, 1)) return wrong("strings [k]", kNotes);
  // The elements are read where they are: a hostile view of few bytes may claim any number of them.
  CASK_ASSIGN_OR_RETURN(const auto names, (Accessor<const std::string, 1>::Create(reply[kNames].view)));
  CASK_ASSIGN_OR_RETURN(const auto encodings, (Accessor<const std::string, 1>::Create(reply[kEncodings].view)));
  CASK_ASSIGN_OR_RETURN(const auto numbers, (Accessor<const int64_t, 2>::Create(reply[kNumbers].view)));
  CASK_ASSIGN_OR_RETURN(const auto all_sizes, (Accessor<const int64_t, 1>::Create(reply[kSizes].view)));
  CASK_ASSIGN_OR_RETURN(const auto notes, (Accessor<const std::string, 1>::Create(reply[kNotes].view)));
  Sizes sizes(all_sizes, reply[kSizes].view.dim(0));
  for (int64_t i = 0; i < count; ++i) {
    ServedTensor tensor;
    tensor.name = names[i];
    if (i > 0 && tensor.name <= names[i - 1]) {
      return absl::InvalidArgumentError(absl::StrCat("row ", i, ": ", Quoted(tensor.name), " comes after ",
                                                     Quoted(names[i - 1]), "; names must come once and in order"));
    }
    if (!IsEncoding(encodings[i])) {
      return absl::InvalidArgumentError(absl::StrCat("row ", i, ": ", Quoted(encodings[i]),
                                                     " is not an encoding: wanted 1 to ", kMaxEncodingBytes,
                                                     " printable characters of ASCII"));
    }
    tensor.encoding = encodings[i];
    CASK_RETURN_IF_ERROR(Annotate(DecodeNumbers(numbers[i], &sizes, &tensor), absl::StrCat("row ", i)));
    CASK_RETURN_IF_ERROR(fn(std::move(tensor)));
  }
  if (sizes.left() != 0) return absl::InvalidArgumentError(absl::StrCat(sizes.left(), " sizes too many"));
  for (int64_t i = 0; i < reply[kNotes].view.dim(0); ++i) CASK_RETURN_IF_ERROR(on_note(notes[i]));
  return absl::OkStatus();
}

absl::StatusOr<ServeRequest> EncodePull(std::vector<std::string> texts) {
  ServeRequest request;
  request.topic = kPullTopic;
  const TensorShape shape = Vector(texts.size());
  CASK_ASSIGN_OR_RETURN(const Tensor what, FromVector(std::move(texts), shape));
  request.tensors.push_back({what, {}});
  return request;
}

absl::StatusOr<std::vector<std::string>> DecodePull(absl::Span<const DecodedTensor> tensors) {
  if (tensors.size() == 1 && tensors[0].view.dtype() == DType::kString && tensors[0].view.rank() == 1 &&
      (tensors[0].view.dim(0) == 1 || tensors[0].view.dim(0) == 2)) {
    CASK_ASSIGN_OR_RETURN(const Tensor what, tensors[0].view.ToTensor());
    const std::string* const texts = what.data<std::string>();
    return std::vector<std::string>(texts, texts + what.num_elements());
  }
  return absl::InvalidArgumentError("pull: wanted one tensor, strings [1] or [2]: a name and a slice");
}

}  // namespace tensorcask::serve
