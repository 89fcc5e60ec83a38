#include "tensorcask/serialize/npy/npy_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/content_hint.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/npy/internal/array_data.h"
#include "tensorcask/serialize/npy/internal/npy_header.h"
#include "tensorcask/serialize/npy/internal/tensor_file.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

// The data of an npy file.
class StoredData final : public npy::ArrayData {
 public:
  StoredData(const ByteSource* file, uint64_t offset) : file_(file), offset_(offset) {}
  absl::StatusOr<std::unique_ptr<npy::DataCursor>> Open(Use) const override {
    return std::unique_ptr<npy::DataCursor>(std::make_unique<npy::StoredCursor>(file_, offset_));
  }
  std::optional<uint64_t> stored_at() const override { return offset_; }
  uint64_t stored_bytes() const override { return file_->size_bytes() - offset_; }
  FileRange place() const override { return {offset_, stored_bytes()}; }

 private:
  const ByteSource* file_;
  uint64_t offset_;
};

struct FoundArray {
  npy::NpyHeader header;
  uint64_t data_offset = 0;
};

// The array whose header begins at `offset`.
absl::StatusOr<FoundArray> ReadArrayHeader(const ByteSource& source, uint64_t offset, const NpyReaderOptions& options) {
  const uint64_t size = source.size_bytes() - offset;
  std::string text(std::min<uint64_t>(size, npy::kMaxPrefixBytes), '\0');
  CASK_RETURN_IF_ERROR(source.ReadAt(offset, absl::MakeSpan(&text[0], text.size())));
  CASK_ASSIGN_OR_RETURN(const npy::NpyPrefix prefix, npy::ParseNpyPrefix(text));
  const uint64_t header_bytes = prefix.prefix_bytes + prefix.text_bytes;
  if (header_bytes > size) {
    return absl::DataLossError(
        absl::StrCat("a header of ", prefix.text_bytes, " bytes, in a file of ", size, " (an incomplete download?)"));
  }
  if (prefix.text_bytes > options.max_header_bytes) {
    return PastLimit(absl::StrCat("the header has ", prefix.text_bytes, " bytes"), "max_header_bytes",
                     options.max_header_bytes);
  }
  text.resize(prefix.text_bytes);
  CASK_RETURN_IF_ERROR(source.ReadAt(offset + prefix.prefix_bytes, absl::MakeSpan(&text[0], text.size())));
  FoundArray found;
  CASK_ASSIGN_OR_RETURN(found.header, npy::ParseNpyHeader(prefix, text));
  found.data_offset = offset + header_bytes;
  return found;
}

// Whether another array begins after this one: np.save was called again with the same open file.
absl::StatusOr<bool> HasNext(const ByteSource& source, const FoundArray& array) {
  const uint64_t behind = source.size_bytes() - array.data_offset;
  if (array.header.has_objects || behind < array.header.data_bytes) return false;
  if (behind - array.header.data_bytes < npy::kMagic.size()) return false;
  std::string start(npy::kMagic.size(), '\0');
  CASK_RETURN_IF_ERROR(
      source.ReadAt(array.data_offset + array.header.data_bytes, absl::MakeSpan(&start[0], start.size())));
  return IsNpy(start);
}

absl::Status ReadFile(npy::TensorFile* file) {
  const ByteSource& source = file->source();
  uint64_t offset = 0;
  bool has_next = true;
  for (int64_t number = 0; has_next; ++number) {
    const size_t num_entries = file->entries().size();
    absl::StatusOr<FoundArray> array = ReadArrayHeader(source, offset, file->options());
    absl::Status status = array.status();
    if (array.ok()) {
      CASK_ASSIGN_OR_RETURN(has_next, HasNext(source, *array));
      const std::string key = number > 0 || has_next ? absl::StrCat("arr_", number) : "";
      const uint64_t data_offset = array->data_offset;
      const uint64_t data_bytes = has_next ? array->header.data_bytes : source.size_bytes() - data_offset;
      status = file->AddArray(key, "", std::move(array->header), std::make_unique<StoredData>(&source, data_offset),
                              data_bytes, data_offset - offset);
      if (status.ok()) offset = data_offset + data_bytes;
    }
    if (status.ok()) continue;
    if (number == 0) return status;
    const std::string key = absl::StrCat("arr_", number);
    const bool is_about_array = absl::IsDataLoss(status) || absl::IsUnimplemented(status);
    if (!file->options().list_damaged_members || !is_about_array || IsResourceFailure(status) ||
        file->entries().size() > num_entries) {
      return Annotate(status, absl::StrCat("array ", key));
    }
    return file->AddUnreadable(key, "", nullptr, source.size_bytes() - offset, status);  // its end is not known
  }
  return absl::OkStatus();
}

}  // namespace

bool IsNpy(absl::string_view start) { return start.substr(0, npy::kMagic.size()) == npy::kMagic; }

absl::StatusOr<NpyReader> NpyReader::Open(const std::string& path, const NpyReaderOptions& options) {
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> source, OpenFileSource(path, options.read));
  return Open(std::move(source), options);
}

absl::StatusOr<NpyReader> NpyReader::Open(std::shared_ptr<const ByteSource> source, const NpyReaderOptions& options) {
  CASK_RETURN_IF_ERROR(npy::CheckReaderOptions(options));
  auto file = std::make_unique<npy::TensorFile>(std::move(source), options);
  const absl::Status status = ReadFile(file.get());
  if (!status.ok()) return ExplainContent(AsDataLoss(status, file->source().name()), file->source(), "npy");
  return NpyReader(std::move(file));
}

NpyReader::NpyReader(std::unique_ptr<const npy::TensorFile> file) : file_(std::move(file)) {}
NpyReader::NpyReader(NpyReader&&) noexcept = default;
NpyReader& NpyReader::operator=(NpyReader&&) noexcept = default;
NpyReader::~NpyReader() = default;

std::shared_ptr<const ByteSource> NpyReader::source() const { return file_->shared_source(); }
FileRange NpyReader::RangeOf(absl::string_view name) const { return file_->RangeOf(name); }
const std::string& NpyReader::path() const { return file_->source().name(); }
const std::vector<NpyEntry>& NpyReader::entries() const { return file_->entries(); }
const std::vector<std::string>& NpyReader::notes() const { return file_->notes(); }

absl::StatusOr<NpyEntry> NpyReader::Find(absl::string_view name) const { return file_->Find(name); }

absl::StatusOr<Tensor> NpyReader::Read(absl::string_view name) const { return file_->Read(name); }

absl::StatusOr<TensorView> NpyReader::ReadView(absl::string_view name) const { return file_->ReadView(name); }

absl::Status NpyReader::ReadInto(absl::string_view name, Tensor* out) const {
  TensorView view = *out;
  return file_->ReadInto(name, &view);
}

absl::Status NpyReader::ReadInto(absl::string_view name, TensorView* out) const { return file_->ReadInto(name, out); }

absl::StatusOr<Tensor> NpyReader::ReadSlice(absl::string_view name, const TensorSlice& slice) const {
  return file_->ReadSlice(name, slice, /*verify_whole=*/false);
}

absl::Status NpyReader::ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const {
  return file_->ReadSliceInto(name, slice, out, /*verify_whole=*/false);
}

absl::StatusOr<std::vector<NpyTensor>> NpyReader::ReadAll(int num_threads,
                                                          const std::function<bool(const NpyEntry&)>& wanted) const {
  return file_->ReadAll(num_threads, wanted);
}

absl::StatusOr<TensorView> NpyReader::Map(absl::string_view name) const { return file_->Map(name); }

absl::Status NpyReader::Verify(absl::string_view name) const { return file_->Verify(name); }

absl::Status NpyReader::VerifyAll(absl::FunctionRef<void(const NpyDamage&)> report) const {
  return file_->VerifyAll(report);
}

}  // namespace tensorcask
