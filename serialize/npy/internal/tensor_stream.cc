// TensorFile::OpenStream.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/npy/internal/array_data.h"
#include "tensorcask/serialize/npy/internal/element_reader.h"
#include "tensorcask/serialize/npy/internal/npy_header.h"
#include "tensorcask/serialize/npy/internal/tensor_file.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::npy {
namespace {

Box WholeBox(const NpyHeader& header) {
  Box box;
  box.dims = header.shape.dims();
  box.starts.assign(box.dims.size(), 0);
  box.lengths = box.dims;
  return box;
}

}  // namespace

class TensorFile::Stream final : public ElementStream {
 public:
  Stream(const TensorFile* file, const Source& source, std::unique_ptr<DataCursor> cursor)
      : file_(file),
        entry_(source.entry),
        left_(source.entry->data_bytes),
        cursor_(std::move(cursor)),
        records_(cursor_.get(), WholeBox(source.array->header), source.array->header.record_bytes),
        elements_(&records_, &source.array->header, source.leaf, file->options_.allow_odd_bools) {}

  absl::Status Read(absl::Span<char> out) override {
    if (out.size() % elements_.bytes_per_record() != 0 || out.size() > left_) {
      return file_->About(
          absl::InvalidArgumentError(absl::StrCat(out.size(), " bytes were asked for; wanted whole elements of ",
                                                  elements_.bytes_per_record(), " bytes, at most ", left_, " bytes")),
          *entry_);
    }
    left_ -= out.size();
    const size_t element_bytes = elements_.bytes_per_record();
    while (!out.empty()) {  // the bytes are in the cache when the reader works on them
      const absl::Span<char> piece = out.subspan(0, kBlockBytes / element_bytes * element_bytes);
      CASK_RETURN_IF_ERROR(file_->About(elements_.Read(piece), *entry_));
      out.remove_prefix(piece.size());
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override { return file_->About(cursor_->Finish(), *entry_); }

 private:
  const TensorFile* const file_;
  const NpyEntry* const entry_;
  uint64_t left_;
  const std::unique_ptr<DataCursor> cursor_;
  RecordBox records_;
  ElementReader elements_;
};

absl::StatusOr<std::unique_ptr<ElementStream>> TensorFile::OpenStream(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const Source source, Lookup(name));
  const NpyEntry& entry = *source.entry;
  if (!entry.readable.ok()) return About(entry.readable, entry);
  const NpyHeader& header = source.array->header;
  const bool in_order = !header.fortran_order || header.shape.rank() < 2;
  if (header.is_structured || !in_order || !source.leaf->dims.empty() || ElementSize(entry.dtype) == 0) {
    return About(absl::UnimplementedError("only whole arrays of numbers in row-major order are read as a stream"),
                 entry);
  }
  if (entry.deflated) {
    CASK_RETURN_IF_ERROR(About(Charge(source, static_cast<uint64_t>(entry.shape.num_elements())), entry));
  }
  absl::StatusOr<std::unique_ptr<DataCursor>> cursor = source.array->data->Open(ArrayData::Use::kWhole);
  if (!cursor.ok()) return About(cursor.status(), entry);
  return std::unique_ptr<ElementStream>(std::make_unique<Stream>(this, source, *std::move(cursor)));
}

}  // namespace tensorcask::npy
