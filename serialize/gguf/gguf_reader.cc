#include "tensorcask/serialize/gguf/gguf_reader.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/gguf/block_types.h"
#include "tensorcask/serialize/gguf/internal/block_elements.h"
#include "tensorcask/serialize/gguf/internal/header.h"
#include "tensorcask/serialize/gguf/internal/open_parts.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/piece_buffer.h"
#include "tensorcask/serialize/stored/elements.h"
#include "tensorcask/serialize/stored/name_order.h"
#include "tensorcask/serialize/stored/stored_tensor.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace gguf {

class ReaderImpl {
 public:
  ReaderImpl(std::string path, Model model, const GgufReaderOptions& options)
      : path_(std::move(path)), limits_(options.limits) {
    how_.strategy = options.read.strategy;
    how_.num_threads = options.read.num_threads;
    how_.allocator = options.allocator;
    size_t num_tensors = 0;
    for (const Part& part : model.parts) num_tensors += part.header.tensors.size();
    entries_.reserve(num_tensors);
    types_.reserve(num_tensors);
    std::vector<uint32_t> order = std::move(model.parts[0].header.by_name);
    for (size_t shard = 0; shard < model.parts.size(); ++shard) {
      Header& header = model.parts[shard].header;
      header_bytes_ += header.data_offset;
      for (HeaderTensor& tensor : header.tensors) {
        GgufEntry entry;
        entry.name = std::move(tensor.name);
        entry.type = tensor.type->name;
        entry.is_block = tensor.type->is_block();
        entry.dtype = tensor.type->dtype;
        entry.shape = tensor.shape;
        entry.shard = static_cast<int>(shard);
        entry.offset = tensor.offset;
        entry.stored_bytes = tensor.stored_bytes;
        if (entry.is_block && header.big_endian && !SwapBlocks(*tensor.type, nullptr, 0)) {
          entry.read_status = absl::UnimplementedError(
              absl::StrCat("blocks of ", tensor.type->name, " in a big-endian file are not read"));
        }
        entries_.push_back(std::move(entry));
        types_.push_back(tensor.type);
      }
      header.tensors = {};  // the entries have all of it
      header.by_name = {};
    }
    if (model.parts.size() > 1) order = stored::OrderByName(entries_);
    SortEntries(order);
    model_ = std::make_shared<const Model>(std::move(model));
    if (options.blocks_as_bytes) GiveBlocksAsBytes();
  }

  std::unique_ptr<const ReaderImpl> BlocksAsBytes() const {
    auto copy = std::make_unique<ReaderImpl>(*this);
    copy->GiveBlocksAsBytes();
    return copy;
  }

  const std::string& path() const { return path_; }
  const Model& model() const { return *model_; }
  const DecodeLimits& limits() const { return limits_; }
  const std::vector<GgufEntry>& entries() const { return entries_; }
  uint64_t header_bytes() const { return header_bytes_; }

  const GgufEntry* FindEntry(absl::string_view name) const { return stored::FindByName(entries_, name); }

  absl::StatusOr<const GgufEntry*> FindReadable(absl::string_view name) const {
    const GgufEntry* const entry = FindEntry(name);
    if (entry == nullptr) return absl::NotFoundError(absl::StrCat(path_, ": no tensor ", Quoted(name)));
    if (!entry->read_status.ok()) return At(*entry, entry->read_status);
    return entry;
  }

  // `status`, if it is an error, with the place of the tensor.
  absl::Status At(const GgufEntry& of, const absl::Status& status) const {
    if (status.ok()) return status;
    return MarkDamagedPart(Annotate(status, absl::StrCat(FileOf(of).name(), ": tensor ", Quoted(of.name), " at offset ",
                                                         of.offset, ", ", of.stored_bytes, " bytes")));
  }

  // Errors: ResourceExhausted if so many elements would pass the limit.
  absl::Status Charge(const GgufEntry& entry, int64_t num_elements) const {
    const uint64_t bytes = static_cast<uint64_t>(num_elements) * ElementSize(entry.dtype);
    return DecodeQuota::ForFile(limits_).Charge(bytes);
  }

  // The elements in `slice`, into a view of their dtype and shape. Errors do not name the tensor.
  absl::Status ReadSliceInto(const GgufEntry& entry, const TensorSlice& slice, TensorView* out) const {
    if (IsDecoded(entry)) {
      const Header& header = PartOf(entry).header;
      const int num_threads = how_.strategy == ReadStrategy::kParallel ? how_.num_threads : 1;
      return ReadBlockElements(FileOf(entry), {TypeOf(entry), entry.shape, entry.offset, header.big_endian}, slice,
                               num_threads, out);
    }
    if (out->num_elements() == entry.shape.num_elements()) {
      return stored::ReadElementsInto(FileOf(entry), Stored(entry), how_, out);
    }
    return stored::ReadSliceOfElementsInto(FileOf(entry), Stored(entry), slice, how_, out);
  }

  absl::StatusOr<Tensor> ReadSlice(const GgufEntry& entry, const TensorSlice& slice) const {
    CASK_ASSIGN_OR_RETURN(const TensorShape part, slice.Apply(entry.shape));
    CASK_RETURN_IF_ERROR(Charge(entry, part.num_elements()));
    CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(entry.dtype, part, how_.allocator));
    CASK_RETURN_IF_ERROR(tensor.EnsureMutable());
    TensorView view = tensor;
    CASK_RETURN_IF_ERROR(ReadSliceInto(entry, slice, &view));
    return tensor;
  }

  absl::StatusOr<Tensor> MapElements(const GgufEntry& entry) const {
    const stored::StoredTensor stored = Stored(entry);
    if (IsDecoded(entry) || !stored::CanMap(stored)) return absl::UnimplementedError("elements that cannot be mapped");
    return stored::MapElements(FileOf(entry), stored, how_);
  }

  absl::Status Verify(const GgufEntry& entry, bool* zero_padding) const {
    constexpr size_t kPieceBytes = size_t{512} << 10;
    const ByteSource& file = FileOf(entry);
    const uint64_t alignment = PartOf(entry).header.alignment;
    const uint64_t end = entry.offset + entry.stored_bytes;
    const uint64_t padded_end = std::min(file.size_bytes(), (end + alignment - 1) / alignment * alignment);
    PieceBuffer piece(std::max(padded_end, end) - entry.offset, kPieceBytes);
    *zero_padding = true;
    for (uint64_t at = entry.offset; at < padded_end;) {
      const auto size = static_cast<size_t>(std::min<uint64_t>(piece.size(), padded_end - at));
      CASK_RETURN_IF_ERROR(file.ReadAt(at, absl::MakeSpan(piece.data(), size)));
      const auto elements = static_cast<size_t>(std::min<uint64_t>(size, end > at ? end - at : 0));
      *zero_padding =
          *zero_padding && std::all_of(piece.data() + elements, piece.data() + size, [](char c) { return c == 0; });
      at += size;
    }
    return absl::OkStatus();
  }

 private:
  static bool IsDecoded(const GgufEntry& entry) { return entry.is_block && entry.dtype == DType::kFloat32; }

  void GiveBlocksAsBytes() {
    for (size_t i = 0; i < entries_.size(); ++i) {
      GgufEntry& entry = entries_[i];
      if (!IsDecoded(entry)) continue;
      entry.dtype = DType::kUint8;
      entry.shape = ShapeInBytes(entry.shape, *types_[i]).value();  // ParseHeader has checked it
      entry.read_status = absl::OkStatus();
    }
  }

  // By name, and the types with them.
  void SortEntries(const std::vector<uint32_t>& order) {
    std::vector<GgufEntry> entries;
    std::vector<const ElementType*> types;
    entries.reserve(order.size());
    types.reserve(order.size());
    for (const uint32_t i : order) {
      entries.push_back(std::move(entries_[i]));
      types.push_back(types_[i]);
    }
    entries_ = std::move(entries);
    types_ = std::move(types);
  }

  const Part& PartOf(const GgufEntry& entry) const { return model_->parts[static_cast<size_t>(entry.shard)]; }
  const ByteSource& FileOf(const GgufEntry& entry) const { return *PartOf(entry).file; }
  const ElementType* TypeOf(const GgufEntry& entry) const { return types_[&entry - entries_.data()]; }

  stored::StoredTensor Stored(const GgufEntry& entry) const {
    stored::StoredTensor tensor;
    tensor.dtype = entry.dtype;
    tensor.shape = entry.shape;
    tensor.offset = entry.offset;
    tensor.stored_bytes = entry.stored_bytes;
    tensor.big_endian = PartOf(entry).header.big_endian;
    return tensor;
  }

  const std::string path_;
  std::shared_ptr<const Model> model_;
  const DecodeLimits limits_;
  stored::ElementOptions how_;
  std::vector<GgufEntry> entries_;
  std::vector<const ElementType*> types_;  // those of the entries
  uint64_t header_bytes_ = 0;
};

namespace {

// All elements of a tensor of this rank.
TensorSlice WholeOf(const GgufEntry& entry) { return TensorSlice::Full(entry.shape.rank()); }

template <typename Source>
absl::StatusOr<std::unique_ptr<const ReaderImpl>> OpenImpl(std::string path, Source source,
                                                           const GgufReaderOptions& options) {
  const std::shared_ptr<ListingBudget> budget =
      options.listing != nullptr ? options.listing : std::make_shared<ListingBudget>(options.limits);
  CASK_ASSIGN_OR_RETURN(Model model, OpenModel(std::move(source), {options.read, options.limits, budget.get()}));
  return std::make_unique<const ReaderImpl>(std::move(path), std::move(model), options);
}

}  // namespace
}  // namespace gguf

GgufReader::GgufReader(std::unique_ptr<const gguf::ReaderImpl> impl) : impl_(std::move(impl)) {}
GgufReader::GgufReader(GgufReader&&) noexcept = default;
GgufReader& GgufReader::operator=(GgufReader&&) noexcept = default;
GgufReader::~GgufReader() = default;

absl::StatusOr<GgufReader> GgufReader::Open(const std::string& path, const GgufReaderOptions& options) {
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<const gguf::ReaderImpl> impl, gguf::OpenImpl(path, path, options));
  return GgufReader(std::move(impl));
}

absl::StatusOr<GgufReader> GgufReader::OpenSource(std::shared_ptr<const ByteSource> source,
                                                  const GgufReaderOptions& options) {
  std::string name = source->name();
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<const gguf::ReaderImpl> impl,
                        gguf::OpenImpl(std::move(name), std::move(source), options));
  return GgufReader(std::move(impl));
}

GgufReader GgufReader::BlocksAsBytes() const { return GgufReader(impl_->BlocksAsBytes()); }

bool GgufReader::LooksLikeGguf(absl::string_view first_bytes) {
  return first_bytes.size() >= 8 && absl::StartsWith(first_bytes, gguf::kMagic);
}

const std::string& GgufReader::path() const { return impl_->path(); }
int GgufReader::num_shards() const { return static_cast<int>(impl_->model().parts.size()); }
const std::string& GgufReader::ShardPath(int shard) const {
  return impl_->model().parts[static_cast<size_t>(shard)].file->name();
}
std::shared_ptr<const ByteSource> GgufReader::ShardSource(int shard) const {
  return impl_->model().parts[static_cast<size_t>(shard)].file;
}
uint32_t GgufReader::version() const { return impl_->model().parts[0].header.version; }
bool GgufReader::big_endian() const { return impl_->model().parts[0].header.big_endian; }
uint64_t GgufReader::header_bytes() const { return impl_->header_bytes(); }
const std::vector<GgufEntry>& GgufReader::entries() const { return impl_->entries(); }
const GgufEntry* GgufReader::FindEntry(absl::string_view name) const { return impl_->FindEntry(name); }
const ValueTree& GgufReader::value_tree() const { return impl_->model().values; }
const std::vector<std::string>& GgufReader::notes() const { return impl_->model().notes; }

absl::StatusOr<ValueTree> GgufReader::ReadArray(const FileArray& array) const {
  const gguf::Part& first = impl_->model().parts[0];
  absl::StatusOr<ValueTree> list = gguf::ReadFileArray(*first.file, array, first.header.big_endian, impl_->limits());
  if (!list.ok()) return Annotate(list.status(), first.file->name());
  return list;
}

absl::StatusOr<std::string> GgufReader::ReadArrayBytes(const FileArray& array) const {
  const gguf::Part& first = impl_->model().parts[0];
  return gguf::ReadArrayBytes(*first.file, array, first.header.big_endian);
}

absl::StatusOr<Tensor> GgufReader::Read(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const GgufEntry* const entry, impl_->FindReadable(name));
  absl::StatusOr<Tensor> tensor = impl_->ReadSlice(*entry, gguf::WholeOf(*entry));
  if (!tensor.ok()) return impl_->At(*entry, tensor.status());
  return tensor;
}

absl::Status GgufReader::ReadInto(absl::string_view name, TensorView* out) const {
  CASK_ASSIGN_OR_RETURN(const GgufEntry* const entry, impl_->FindReadable(name));
  absl::Status status = stored::CheckTarget(entry->dtype, entry->shape, *out);
  if (status.ok()) status = impl_->ReadSliceInto(*entry, gguf::WholeOf(*entry), out);
  return impl_->At(*entry, status);
}

absl::StatusOr<Tensor> GgufReader::ReadSlice(absl::string_view name, const TensorSlice& slice) const {
  CASK_ASSIGN_OR_RETURN(const GgufEntry* const entry, impl_->FindReadable(name));
  absl::StatusOr<Tensor> tensor = impl_->ReadSlice(*entry, slice);
  if (!tensor.ok()) return impl_->At(*entry, tensor.status());
  return tensor;
}

absl::Status GgufReader::ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const {
  CASK_ASSIGN_OR_RETURN(const GgufEntry* const entry, impl_->FindReadable(name));
  const absl::StatusOr<TensorShape> part = slice.Apply(entry->shape);
  absl::Status status = part.ok() ? stored::CheckTarget(entry->dtype, *part, *out) : part.status();
  if (status.ok()) status = impl_->ReadSliceInto(*entry, slice, out);
  return impl_->At(*entry, status);
}

absl::StatusOr<Tensor> GgufReader::Map(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const GgufEntry* const entry, impl_->FindReadable(name));
  absl::StatusOr<Tensor> tensor = impl_->MapElements(*entry);
  if (absl::IsUnimplemented(tensor.status())) return Read(name);
  if (!tensor.ok()) return impl_->At(*entry, tensor.status());
  return tensor;
}

absl::Status GgufReader::Verify(absl::string_view name, bool* zero_padding) const {
  const GgufEntry* const entry = impl_->FindEntry(name);
  if (entry == nullptr) return absl::NotFoundError(absl::StrCat(path(), ": no tensor ", Quoted(name)));
  return impl_->At(*entry, impl_->Verify(*entry, zero_padding));
}

}  // namespace tensorcask
