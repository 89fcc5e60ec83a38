#include "tensorcask/serialize/npy/internal/npy_encoder.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/npy/internal/npy_dtypes.h"
#include "tensorcask/serialize/npy/internal/npy_header.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/utf8.h"
#include "tensorcask/tensor/strided/changing_memory.h"

namespace tensorcask::npy {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;
constexpr uint32_t kMinAlignment = 64;
constexpr uint32_t kMaxAlignment = 16384;
constexpr size_t kGrowthDigits = 21;  // NumPy leaves so many characters for the axis along which an array grows

// Code points of UTF-8. Requires: internal::IsUtf8(text).
std::vector<uint32_t> CodePoints(absl::string_view text) {
  std::vector<uint32_t> points;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      points.push_back(byte);
    } else if (byte < 0xc0) {
      points.back() = points.back() << 6 | (byte & 0x3f);
    } else {
      points.push_back(byte < 0xe0 ? byte & 0x1f : byte < 0xf0 ? byte & 0x0f : byte & 0x07);
    }
  }
  return points;
}

uint64_t CountCodePoints(absl::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

// Calls visit for each string of `view`, in row-major order.
absl::Status ForEachString(const TensorView& view, absl::FunctionRef<absl::Status(const std::string&)> visit) {
  if (view.num_elements() == 0) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(view.buffer()->CheckReadable());
  const std::string* const data = view.data<std::string>();
  std::vector<int64_t> index(view.rank(), 0);
  int64_t at = 0;
  while (true) {
    CASK_RETURN_IF_ERROR(visit(data[at]));
    int axis = view.rank() - 1;
    for (; axis >= 0; --axis) {
      at += view.stride(axis);
      if (++index[axis] < view.dim(axis)) break;
      at -= view.stride(axis) * view.dim(axis);
      index[axis] = 0;
    }
    if (axis < 0) return absl::OkStatus();
  }
}

// The width of the longest string, in bytes or code points, at least 1 (NumPy has no narrower strings).
absl::StatusOr<uint64_t> Width(const TensorView& view, NpyStrings form) {
  uint64_t width = 1;
  int64_t number = 0;
  CASK_RETURN_IF_ERROR(ForEachString(view, [&](const std::string& text) -> absl::Status {
    if (!text.empty() && text.back() == '\0') {
      return absl::InvalidArgumentError(absl::StrCat("string ", number,
                                                     " ends in a NUL byte, which npy files use for "
                                                     "padding; such strings cannot be stored"));
    }
    if (form == NpyStrings::kUnicode && !internal::IsUtf8(text)) {
      return absl::InvalidArgumentError(
          absl::StrCat("string ", number, " is not UTF-8; NpyStrings::kBytes stores any bytes"));
    }
    width = std::max<uint64_t>(width, form == NpyStrings::kUnicode ? CountCodePoints(text) : text.size());
    ++number;
    return absl::OkStatus();
  }));
  const uint64_t bytes = form == NpyStrings::kUnicode ? width * 4 : width;
  if (width > kMaxItemBytes || bytes > kMaxItemBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a string takes ", bytes, " bytes; npy files have at most ", kMaxItemBytes));
  }
  return width;
}

bool IsColumnMajor(const TensorView& view) {
  if (view.rank() < 2 || view.IsContiguous()) return false;
  DimVector axes;
  for (int axis = view.rank(); axis-- > 0;) axes.push_back(axis);
  const absl::StatusOr<TensorView> reversed = view.Permute(axes);
  return reversed.ok() && reversed->IsContiguous();
}

std::string DescrAttribute(const TensorMetadata& metadata) {
  const auto found = metadata.attributes.find(kNpyDescrAttribute);
  return found == metadata.attributes.end() ? std::string() : found->second;
}

// What came from an array of str becomes one again, as long as it is text.
NpyStrings FormOf(const TensorView& strings, const NpyFormat& format, const TensorMetadata& metadata) {
  const std::string descr = DescrAttribute(metadata);
  if (format.strings == NpyStrings::kUnicode || descr.size() < 2 || descr[1] != 'U') return format.strings;
  const absl::Status is_text = ForEachString(strings, [](const std::string& text) {
    return internal::IsUtf8(text) ? absl::OkStatus() : absl::CancelledError();
  });
  return is_text.ok() ? NpyStrings::kUnicode : NpyStrings::kBytes;
}

size_t SwappedBytes(DType dtype, bool big_endian) {
  if (!big_endian) return 1;
  const size_t bytes = ElementSize(dtype);
  return IsComplex(dtype) ? bytes / 2 : bytes;
}

}  // namespace

absl::Status CheckFormat(const NpyFormat& format) {
  const uint32_t alignment = format.alignment;
  if (alignment < kMinAlignment || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("NpyFormat::alignment is ", alignment,
                                                   "; it must be a power of two from ", kMinAlignment, " to ",
                                                   kMaxAlignment));
  }
  return absl::OkStatus();
}

absl::Status CheckShape(const TensorShape& shape) {
  if (shape.rank() > kMaxNpyRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", shape.rank(), " axes; NumPy reads arrays of at most ", kMaxNpyRank));
  }
  constexpr uint64_t kLargestItemBytes = 16;
  uint64_t bytes = kLargestItemBytes;
  for (const int64_t dim : shape.dims()) {
    const std::optional<uint64_t> product = CheckedMul(bytes, static_cast<uint64_t>(std::max<int64_t>(dim, 1)));
    bytes = product.value_or(UINT64_MAX);
    if (bytes <= INT64_MAX) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("has the shape ", shape.ToString(), ", whose sizes without zeros are too large for NumPy"));
  }
  return absl::OkStatus();
}

absl::Status NpyEncoder::SetHeader(absl::string_view descr, const TensorShape& shape, uint64_t item_bytes,
                                   uint32_t alignment) {
  CASK_RETURN_IF_ERROR(CheckShape(shape));
  std::string text =
      absl::StrCat("{'descr': '", descr, "', 'fortran_order': ", column_major_ ? "True" : "False", ", 'shape': (");
  for (int axis = 0; axis < shape.rank(); ++axis) absl::StrAppend(&text, axis == 0 ? "" : ", ", shape.dim(axis));
  absl::StrAppend(&text, shape.rank() == 1 ? "," : "", "), }");
  if (shape.rank() > 0) {
    const size_t digits = absl::StrCat(shape.dim(column_major_ ? -1 : 0)).size();
    text.append(kGrowthDigits - digits, ' ');
  }
  constexpr size_t kPrefixBytes = 10;
  const size_t used = kPrefixBytes + text.size() + 1;
  text.append(alignment - used % alignment, ' ');  // as NumPy, a full stretch if nothing is missing
  text.push_back('\n');
  header_ = std::string(kMagic);
  header_.append("\x01\x00", 2);
  header_.push_back(static_cast<char>(text.size() & 0xff));  // at most 254 dims of 19 digits and the padding: 16 bits
  header_.push_back(static_cast<char>(text.size() >> 8));
  header_ += text;
  item_bytes_ = item_bytes;
  const std::optional<uint64_t> data_bytes = CheckedMul(static_cast<uint64_t>(shape.num_elements()), item_bytes);
  if (!data_bytes || *data_bytes > static_cast<uint64_t>(INT64_MAX) - header_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(shape.num_elements(), " strings of ", item_bytes, " bytes are more than a file holds"));
  }
  data_bytes_ = *data_bytes;
  return absl::OkStatus();
}

absl::StatusOr<NpyEncoder> NpyEncoder::Create(const TensorView& tensor, const NpyFormat& format,
                                              const TensorMetadata& metadata) {
  CASK_RETURN_IF_ERROR(CheckFormat(format));
  NpyEncoder encoder;
  encoder.format_ = format;
  encoder.column_major_ = tensor.rank() > 1 && (format.order == NpyOrder::kColumnMajor ||
                                                (format.order == NpyOrder::kPreserve && IsColumnMajor(tensor)));
  if (tensor.dtype() == DType::kString) {
    encoder.format_.strings = FormOf(tensor, format, metadata);
    const bool is_unicode = encoder.format_.strings == NpyStrings::kUnicode;
    CASK_ASSIGN_OR_RETURN(const uint64_t width, Width(tensor, encoder.format_.strings));
    encoder.swapped_bytes_ = is_unicode && format.big_endian ? 4 : 1;
    CASK_RETURN_IF_ERROR(
        encoder.SetHeader(is_unicode ? absl::StrCat(format.big_endian ? ">U" : "<U", width) : absl::StrCat("|S", width),
                          tensor.shape(), is_unicode ? width * 4 : width, format.alignment));
    return encoder;
  }
  CASK_ASSIGN_OR_RETURN(const std::string descr, DescrOf(tensor.dtype(), format, DescrAttribute(metadata)));
  encoder.swapped_bytes_ = SwappedBytes(tensor.dtype(), format.big_endian);
  CASK_RETURN_IF_ERROR(encoder.SetHeader(descr, tensor.shape(), tensor.element_size(), format.alignment));
  return encoder;
}

absl::StatusOr<NpyEncoder> NpyEncoder::CreateForPieces(DType dtype, const TensorShape& shape, const NpyFormat& format,
                                                       const TensorMetadata& metadata) {
  CASK_RETURN_IF_ERROR(CheckFormat(format));
  if (format.order == NpyOrder::kColumnMajor) {
    return absl::InvalidArgumentError("pieces are written in row-major order; NpyOrder::kColumnMajor needs Add");
  }
  if (dtype == DType::kString) {
    return absl::InvalidArgumentError(
        "strings are padded to the longest one, so they cannot be written in pieces: use Add");
  }
  NpyEncoder encoder;
  encoder.format_ = format;
  CASK_ASSIGN_OR_RETURN(const std::string descr, DescrOf(dtype, format, DescrAttribute(metadata)));
  encoder.swapped_bytes_ = SwappedBytes(dtype, format.big_endian);
  CASK_RETURN_IF_ERROR(encoder.SetHeader(descr, shape, ElementSize(dtype), format.alignment));
  return encoder;
}

absl::Status NpyEncoder::EncodeStrings(const TensorView& in_order, Sink sink) const {
  std::string block;
  CASK_RETURN_IF_ERROR(ForEachString(in_order, [&](const std::string& text) -> absl::Status {
    const size_t start = block.size();
    block.resize(start + item_bytes_, '\0');
    if (format_.strings == NpyStrings::kBytes) {
      std::memcpy(&block[start], text.data(), text.size());
    } else {
      const std::vector<uint32_t> points = CodePoints(text);
      // Not memcpy, which refuses the null pointer of an empty text.
      std::copy_n(reinterpret_cast<const char*>(points.data()), points.size() * 4, &block[start]);
      if (swapped_bytes_ == 4) SwapBytes(&block[start], points.size(), 4);
    }
    if (block.size() < kPieceBytes) return absl::OkStatus();
    CASK_RETURN_IF_ERROR(sink(block));
    block.clear();
    return absl::OkStatus();
  }));
  return block.empty() ? absl::OkStatus() : sink(block);
}

absl::Status NpyEncoder::Encode(const TensorView& tensor, Sink sink) const {
  TensorView in_order = tensor;
  if (column_major_) {
    DimVector axes;
    for (int axis = tensor.rank(); axis-- > 0;) axes.push_back(axis);
    CASK_ASSIGN_OR_RETURN(in_order, tensor.Permute(axes));
  }
  if (tensor.dtype() == DType::kString) return EncodeStrings(in_order, sink);
  if (swapped_bytes_ == 1) return internal::ForEachStablePiece(in_order, kPieceBytes, sink);
  std::string swapped;
  return internal::ForEachStablePiece(in_order, kPieceBytes, [&](absl::string_view bytes) {
    swapped.assign(bytes.data(), bytes.size());
    SwapBytes(&swapped[0], swapped.size() / swapped_bytes_, swapped_bytes_);
    return sink(swapped);
  });
}

absl::Status PieceOrder::Next(const TensorSlice& slice) {
  CASK_ASSIGN_OR_RETURN(const TensorShape part, slice.Apply(shape_));
  if (part.num_elements() == 0) return absl::OkStatus();
  // A run: the first axes are at one index, one axis has a range, the rest are whole.
  int64_t start = 0;
  bool before_range = true;
  for (int axis = 0; axis < shape_.rank(); ++axis) {
    const TensorSlice::Extent extent = slice.extent(axis);
    start = start * shape_.dim(axis) + (extent.full() ? 0 : extent.start);
    if (!before_range && part.dim(axis) != shape_.dim(axis)) {
      return absl::InvalidArgumentError(absl::StrCat("the piece ", slice.ToString(), " of ", shape_.ToString(),
                                                     " is not a run of elements in row-major order"));
    }
    if (part.dim(axis) != 1) before_range = false;
  }
  if (start != done_) {
    return absl::InvalidArgumentError(absl::StrCat("the piece ", slice.ToString(), " of ", shape_.ToString(),
                                                   " begins at element ", start, "; the next one is ", done_));
  }
  done_ += part.num_elements();
  return absl::OkStatus();
}

}  // namespace tensorcask::npy
