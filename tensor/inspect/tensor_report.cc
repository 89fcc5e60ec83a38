#include "tensorcask/tensor/inspect/tensor_report.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/compat/handle.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

TensorReport ReportOf(const TensorBuffer* buffer, DType dtype, const Layout& layout) {
  TensorReport report;
  report.dtype = dtype;
  report.dims.assign(layout.dims().begin(), layout.dims().end());
  report.strides.assign(layout.strides().begin(), layout.strides().end());
  report.offset = layout.offset();
  report.num_elements = layout.num_elements();
  report.element_bytes = static_cast<int64_t>(ObjectBytes(dtype));
  report.tensor_bytes = CheckedMul(report.num_elements, report.element_bytes);
  report.contiguous = layout.IsContiguous();
  report.channels_last_2d = layout.IsContiguous(MemoryFormat::kChannelsLast2d);
  report.channels_last_3d = layout.IsContiguous(MemoryFormat::kChannelsLast3d);
  report.dense = layout.IsNonOverlappingAndDense();
  report.overlaps = layout.HasInternalOverlap();
  report.suggested_format = layout.SuggestMemoryFormat();
  if (buffer == nullptr) return report;

  BufferReport& about = report.buffer.emplace();
  about.kind = buffer->kind();
  about.allocator = std::string(buffer->allocator_name());
  about.address = buffer->CheckReadable().ok() ? buffer->data() : nullptr;
  about.size_bytes = buffer->size_bytes();
  about.offset_bytes = buffer->offset_bytes();
  about.root_bytes = buffer->root()->size_bytes();
  about.use_count = buffer->use_count();
  about.root_use_count = buffer->root()->use_count();
  about.version = buffer->version();
  about.exclusive = buffer->IsExclusive();
  about.writable_in_place = buffer->IsWritableInPlace();
  return report;
}

std::string DimsText(const std::vector<int64_t>& dims) { return absl::StrCat("[", absl::StrJoin(dims, ","), "]"); }

std::string OrderText(const TensorReport& report) {
  std::string text = report.dense ? "dense, " : "not dense, ";
  text += report.contiguous ? "contiguous" : "not contiguous";
  if (report.channels_last_2d) text += ", channels_last_2d";
  if (report.channels_last_3d) text += ", channels_last_3d";
  return absl::StrCat(text, "; suggests ", MemoryFormatName(report.suggested_format));
}

std::string BufferText(const BufferReport& buffer) {
  std::string text(BufferKindName(buffer.kind));
  if (!buffer.allocator.empty()) absl::StrAppend(&text, " from allocator ", Quoted(buffer.allocator));
  return absl::StrCat(text, ", bytes ", buffer.offset_bytes, " to ", buffer.offset_bytes + buffer.size_bytes,
                      " of its root; version ", buffer.version);
}

}  // namespace

absl::string_view BufferKindName(TensorBuffer::Kind kind) {
  switch (kind) {
    case TensorBuffer::Kind::kBytes:
      return "bytes";
    case TensorBuffer::Kind::kElements:
      return "elements";
    case TensorBuffer::Kind::kScalar:
      return "scalar";
    case TensorBuffer::Kind::kExternal:
      return "external";
    case TensorBuffer::Kind::kMapped:
      return "mapped";
    case TensorBuffer::Kind::kNoData:
      return "no_data";
    case TensorBuffer::Kind::kDevice:
      return "device";
  }
  return "unknown";
}

TensorReport MakeReport(const Tensor& tensor) {
  return ReportOf(tensor.buffer().get(), tensor.dtype(), Layout::RowMajor(tensor.shape()));
}

TensorReport MakeReport(const TensorView& view) { return ReportOf(view.buffer().get(), view.dtype(), view.layout()); }

absl::StatusOr<TensorReport> CreateReport(const TensorHandle& handle) {
  const TensorObject* const object = handle.object();
  if (object == nullptr) return absl::FailedPreconditionError("CreateReport: the tensor handle is undefined");
  TensorReport report = MakeReport(object->view());
  report.object = ObjectReport{object->use_count(), object->weak_use_count(), object->is_frozen()};
  report.metadata = object->metadata();
  return report;
}

std::optional<double> TensorReport::waste_ratio() const {
  if (!buffer || tensor_bytes.value_or(0) == 0) return std::nullopt;
  return static_cast<double>(buffer->root_bytes) / static_cast<double>(*tensor_bytes);
}

std::string TensorReport::ToText(Addresses addresses) const {
  std::string text =
      absl::StrCat(DTypeName(dtype), " ", DimsText(dims), " strides ", DimsText(strides), " offset ", offset);
  const auto add = [&text](absl::string_view name, const auto&... what) {
    absl::StrAppend(&text, "\n  ", absl::StrFormat("%-10s", name), what...);
  };
  add("elements", num_elements, " of ", element_bytes, " bytes, ",
      tensor_bytes ? absl::StrCat(*tensor_bytes) : "over 2^63", " bytes together");
  if (buffer) {
    const std::optional<double> ratio = waste_ratio();
    add("storage", buffer->root_bytes, " bytes", ratio ? absl::StrFormat(", %.4g x the elements", *ratio) : "");
  }
  add("order", OrderText(*this));
  add("overlap", overlaps ? "some elements have several indices" : "none");
  if (buffer) {
    add("buffer", BufferText(*buffer));
    if (addresses == Addresses::kShow) {
      add("address", absl::StrFormat("0x%x", reinterpret_cast<uintptr_t>(buffer->address)));
    }
    add("counts", "buffer ", buffer->use_count, ", root ", buffer->root_use_count, "; ",
        buffer->exclusive ? "exclusive" : "shared");
    add("writing", buffer->writable_in_place ? "in place" : "to a copy");
  } else {
    add("buffer", "none");
  }
  if (object) {
    add("object", object->use_count, " strong, ", object->weak_use_count, " weak; ",
        object->frozen ? "frozen" : "not frozen");
  }
  add("metadata", metadata.ToString());
  return text;
}

}  // namespace tensorcask
