#include "tensorcask/serialize/npy/internal/tensor_file.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/piece_buffer.h"
#include "tensorcask/serialize/npy/internal/npy_dtypes.h"
#include "tensorcask/serialize/stored/elements.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/device_elements.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/row_major.h"

namespace tensorcask::npy {
namespace {

constexpr size_t kLargeBlockBytes = size_t{64} << 20;  // the most memory that is filled without work on its bytes

// True if the bytes in the file are the elements in memory.
bool NeedsNoWork(const NpyLeaf& leaf) { return leaf.kind != 'b' && (!leaf.big_endian || leaf.item_bytes == 1); }

// The part of an array that `slice` names, as a box of records in the order of the file. Requires: the slice fits.
Box BoxOf(const NpyHeader& header, const TensorSlice& slice) {
  Box box;
  for (int axis = 0; axis < header.shape.rank(); ++axis) {
    const TensorSlice::Extent extent = slice.extent(axis);
    box.dims.push_back(header.shape.dim(axis));
    box.starts.push_back(extent.full() ? 0 : extent.start);
    box.lengths.push_back(extent.full() ? header.shape.dim(axis) : extent.length);
  }
  if (header.fortran_order) {
    std::reverse(box.dims.begin(), box.dims.end());
    std::reverse(box.starts.begin(), box.starts.end());
    std::reverse(box.lengths.begin(), box.lengths.end());
  }
  return box;
}

// The view of records in the order of the file, with the axes of the tensor.
absl::StatusOr<TensorView> InTensorOrder(TensorView view, const NpyHeader& header) {
  if (!header.fortran_order || header.shape.rank() < 2) return view;
  DimVector axes;
  for (int axis = header.shape.rank(); axis-- > 0;) axes.push_back(axis);
  for (int axis = header.shape.rank(); axis < view.rank(); ++axis) axes.push_back(axis);
  return view.Permute(axes);
}

// The memory that an entry, its leaf and its places in the tables take.
uint64_t ListedBytes(const NpyEntry& entry, const NpyLeaf& leaf) {
  constexpr uint64_t kTables = 144;     // and what an allocator adds, and a list while it grows
  constexpr uint64_t kAttribute = 192;  // an attribute of the metadata
  constexpr uint64_t kStatus = 96;
  return sizeof(NpyEntry) + sizeof(NpyLeaf) + kTables + entry.name.size() + entry.descr.size() +
         sizeof(int64_t) * (static_cast<uint64_t>(entry.shape.rank()) + 2 * leaf.dims.size()) +
         (entry.metadata.attributes.empty() ? 0 : kAttribute) +
         (entry.readable.ok() ? 0 : kStatus + entry.readable.message().size());
}

// The slice of the elements inside the records; of the records, all.
absl::StatusOr<TensorView> SliceInside(TensorView view, const NpyHeader& header, const TensorSlice& slice) {
  std::vector<TensorSlice::Extent> extents(view.rank());
  for (int axis = header.shape.rank(); axis < view.rank(); ++axis) extents[axis] = slice.extent(axis);
  CASK_ASSIGN_OR_RETURN(const TensorSlice inside, TensorSlice::Create(extents));
  if (inside.IsFull()) return view;
  return view.Slice(inside);
}

}  // namespace

absl::Status CheckReaderOptions(const NpyReaderOptions& options) {
  const DType opaque = options.dtype_of_opaque_elements;
  if (opaque != DType::kInvalid && (!IsFixedSize(opaque) || opaque == DType::kBool)) {
    return absl::InvalidArgumentError(absl::StrCat("NpyReaderOptions::dtype_of_opaque_elements is ", DTypeName(opaque),
                                                   "; opaque elements are numbers"));
  }
  return absl::OkStatus();
}

TensorFile::TensorFile(std::shared_ptr<const ByteSource> source, NpyReaderOptions options)
    : source_(std::move(source)), options_(std::move(options)), by_name_(0, NameHash{&entries_}, NameEqual{&entries_}) {
  if (options_.listing == nullptr) options_.listing = std::make_shared<ListingBudget>(options_.limits);
}

absl::StatusOr<NpyEntry> TensorFile::MakeEntry(absl::string_view key, absl::string_view member_ending,
                                               const Array& array, const NpyLeaf& leaf) const {
  NpyEntry entry;
  entry.member_ending = member_ending;
  if (array.header.is_structured) entry.field_at = key.empty() ? 0 : key.size() + 1;
  entry.name = !array.header.is_structured ? std::string(key)
               : key.empty()               ? leaf.name
                                           : absl::StrCat(key, ".", leaf.name);
  if (entry.name.size() > LimitOf(options_.limits.max_name_bytes)) {
    return PastLimit(absl::StrCat("the name of a tensor has ", entry.name.size(), " bytes"), "max_name_bytes",
                     options_.limits.max_name_bytes);
  }
  entry.descr = leaf.descr;
  entry.fortran_order = array.header.fortran_order;
  DimVector dims = array.header.shape.dims();
  dims.insert(dims.end(), leaf.dims.begin(), leaf.dims.end());
  CASK_ASSIGN_OR_RETURN(entry.shape, TensorShape::Create(dims));
  const absl::StatusOr<DType> dtype = DTypeOfLeaf(leaf, options_.dtype_of_opaque_elements);
  if (dtype.ok()) {
    entry.dtype = *dtype;
    if (!CheckedMul(static_cast<uint64_t>(entry.shape.num_elements()), ObjectBytes(*dtype) + leaf.item_bytes)) {
      return absl::InvalidArgumentError(absl::StrCat("its elements take more than 2^64 bytes"));
    }
  } else {
    entry.readable = dtype.status();
  }
  const bool is_time = leaf.kind == 'M' || leaf.kind == 'm';
  if (is_time || leaf.kind == 'U') entry.metadata.attributes[kNpyDescrAttribute] = leaf.descr;
  const std::optional<uint64_t> data_bytes =
      CheckedMul(static_cast<uint64_t>(entry.shape.num_elements()), leaf.item_bytes);
  if (!data_bytes) return absl::InvalidArgumentError("its elements take more than 2^64 bytes");
  entry.data_bytes = *data_bytes;
  const std::optional<uint64_t> stored_at = array.data->stored_at();
  entry.deflated = !stored_at.has_value();
  entry.data_offset = stored_at.value_or(0);
  entry.stored_bytes = entry.deflated ? array.data->stored_bytes() : entry.data_bytes;
  return entry;
}

absl::Status TensorFile::AddArray(absl::string_view key, absl::string_view member_ending, NpyHeader header,
                                  std::unique_ptr<ArrayData> data, uint64_t available_bytes, uint64_t index_bytes) {
  options_.listing->AddIndex(index_bytes);
  if (header.has_objects) {
    if (!options_.list_object_arrays) {
      const auto leaf = std::find_if(header.leaves.begin(), header.leaves.end(),
                                     [](const NpyLeaf& candidate) { return candidate.kind == 'O'; });
      return DTypeOfLeaf(*leaf, DType::kInvalid).status();
    }
  } else if (available_bytes < header.data_bytes) {
    return absl::DataLossError(absl::StrCat("the file has ", available_bytes, available_bytes == 1 ? " byte" : " bytes",
                                            " of data; shape ", header.shape.ToString(), " of ", header.record_bytes,
                                            header.record_bytes == 1 ? " byte" : " bytes", " each needs ",
                                            header.data_bytes, " (an incomplete download?)"));
  } else if (available_bytes > header.data_bytes && !options_.allow_trailing_bytes) {
    const uint64_t rest = available_bytes - header.data_bytes;
    return absl::DataLossError(absl::StrCat(rest, rest == 1 ? " byte" : " bytes",
                                            " behind the array (NpyReaderOptions::allow_trailing_bytes)"));
  }
  constexpr size_t kMaxNotes = 100;
  if (!header.has_objects && available_bytes > header.data_bytes && notes_.size() < kMaxNotes) {
    const std::string member = absl::StrCat(key, member_ending);
    const uint64_t rest = available_bytes - header.data_bytes;
    notes_.push_back(
        absl::StrCat(member.empty() ? "" : absl::StrCat("member ", Quoted(member), ": "), rest,
                     rest == 1 ? " byte behind the array is ignored" : " bytes behind the array are ignored"));
  }
  if (header.is_structured && !std::exchange(has_fields_, true)) {
    CASK_RETURN_IF_ERROR(options_.listing->Charge(ReservedForFields()));
  }
  constexpr size_t kMany = 1000;
  if (header.leaves.size() > kMany) entries_.reserve(entries_.size() + header.leaves.size());
  arrays_.push_back(std::make_unique<Array>(std::move(header), std::move(data), entries_.size()));
  Array& array = *arrays_.back();
  for (NpyLeaf& leaf : array.header.leaves) {
    if (entries_.size() >= LimitOf(options_.limits.max_entries)) {
      return PastLimit("the file has more tensors", "max_entries", options_.limits.max_entries);
    }
    CASK_ASSIGN_OR_RETURN(NpyEntry entry, MakeEntry(key, member_ending, array, leaf));
    if (array.header.has_objects && entry.readable.ok()) {
      entry.readable = absl::UnimplementedError("a field of a structure that has Python objects, which are never read");
    }
    CASK_RETURN_IF_ERROR(options_.listing->Charge(ListedBytes(entry, leaf)));
    std::string().swap(leaf.name);  // an assignment would keep the memory
    std::string().swap(leaf.descr);
    entry.shares_pass =
        array.header.is_structured && entry.readable.ok() &&
        DecodedBytes({&entry, &array, &leaf}, LimitOf(entry.shape.num_elements())) <= ColumnBudget(array);
    entries_.push_back(std::move(entry));
    array_of_.push_back(static_cast<uint32_t>(arrays_.size() - 1));
    if (!by_name_.insert(entries_.size() - 1).second) {
      return absl::DataLossError(absl::StrCat("two tensors are named ", Quoted(entries_.back().name)));
    }
  }
  return absl::OkStatus();
}

absl::Status TensorFile::AddUnreadable(absl::string_view key, absl::string_view member_ending,
                                       std::unique_ptr<ArrayData> data, uint64_t stored_bytes,
                                       const absl::Status& status) {
  // AddArray may have failed before the first entry of its array.
  if (!arrays_.empty() && arrays_.back()->first_entry == entries_.size()) arrays_.pop_back();
  NpyEntry entry;
  entry.name = std::string(key);
  entry.member_ending = member_ending;
  entry.stored_bytes = stored_bytes;
  entry.readable = absl::IsInvalidArgument(status) ? absl::DataLossError(status.message()) : status;
  NpyHeader header;
  header.leaves.emplace_back();
  CASK_RETURN_IF_ERROR(options_.listing->Charge(ListedBytes(entry, header.leaves[0]) + status.message().size()));
  arrays_.push_back(std::make_unique<Array>(std::move(header), std::move(data), entries_.size()));
  entries_.push_back(std::move(entry));
  array_of_.push_back(static_cast<uint32_t>(arrays_.size() - 1));
  if (by_name_.insert(entries_.size() - 1).second) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("two tensors are named ", Quoted(entries_.back().name)));
}

void TensorFile::AddOther(absl::string_view member, std::unique_ptr<ArrayData> data, uint64_t size_bytes) {
  other_members_.emplace_back(member);
  others_.push_back({std::move(data), size_bytes});
}

TensorFile::Source TensorFile::SourceOf(size_t index) const {
  const Array& array = *arrays_[array_of_[index]];
  return {&entries_[index], &array, &array.header.leaves[index - array.first_entry]};
}

absl::StatusOr<TensorFile::Source> TensorFile::Lookup(absl::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    return absl::NotFoundError(absl::StrCat(source_->name(), ": no tensor ", Quoted(name)));
  }
  return SourceOf(*found);
}

FileRange TensorFile::RangeOf(absl::string_view name) const {
  const absl::StatusOr<Source> source = Lookup(name);
  if (!source.ok() || !source->entry->readable.ok() || source->array->data == nullptr) return {};
  return source->array->data->place_of_whole();
}

absl::Status TensorFile::About(const absl::Status& status, const NpyEntry& entry) const {
  if (status.ok() || absl::StartsWith(status.message(), absl::StrCat(source_->name(), ": "))) {
    return MarkDamagedPart(status);
  }
  // The one array of an npy file has no name, and so the path is enough.
  if (entry.name.empty() && entries_.size() == 1) return MarkDamagedPart(Annotate(status, source_->name()));
  return MarkDamagedPart(Annotate(status, absl::StrCat(source_->name(), ": tensor ", Quoted(entry.name))));
}

absl::StatusOr<NpyEntry> TensorFile::Find(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const Source source, Lookup(name));
  return *source.entry;
}

// What reading `num_elements` elements takes in memory.
uint64_t TensorFile::DecodedBytes(const Source& source, uint64_t num_elements) {
  const DType dtype = source.entry->dtype;  // MakeEntry has made sure that the product fits
  return num_elements * (ObjectBytes(dtype) + (dtype == DType::kString ? source.leaf->item_bytes : 0));
}

absl::Status TensorFile::Charge(const Source& source, uint64_t num_elements) const {
  const uint64_t bytes = DecodedBytes(source, num_elements);
  CASK_RETURN_IF_ERROR(DecodeQuota::ForFile(options_.limits).Charge(bytes));
  if (source.leaf->item_bytes == 0) return DecodeQuota::ForUnbacked(options_.limits).Charge(bytes);
  if (!source.entry->deflated || bytes <= LimitOf(options_.limits.max_memory_beyond_input)) return absl::OkStatus();
  const uint64_t stored_bytes = std::max<uint64_t>(source.array->data->stored_bytes(), 1);
  // Zeros deflate to a little more than 1 / 1032, the least that the format allows. The default limit, 1000, and higher
  // ones accept them.
  constexpr uint64_t kMostOfDeflate = 1032;
  uint64_t limit = LimitOf(options_.limits.max_expansion);
  if (limit >= LimitOf(DecodeLimits().max_expansion)) limit = std::max(limit, kMostOfDeflate);
  if (bytes / stored_bytes < limit) return absl::OkStatus();
  return PastLimit(absl::StrCat(stored_bytes, " deflated bytes make ", bytes), "max_expansion",
                   options_.limits.max_expansion);
}

// A record is in memory as a whole. Of a file as it is, it has as many bytes there.
absl::Status TensorFile::CheckRecord(const Array& array) const {
  const uint64_t bytes = array.header.is_structured ? array.header.record_bytes : 0;
  if (array.data->stored_at().has_value() || bytes <= LimitOf(options_.limits.max_memory_beyond_input)) {
    return absl::OkStatus();
  }
  return PastLimit(absl::StrCat("a deflated structure of ", bytes, " bytes"), "max_memory_beyond_input",
                   options_.limits.max_memory_beyond_input);
}

// Reads all elements of the box of `elements` into *dense.
absl::Status TensorFile::FillElements(const Source& source, ElementReader* elements, Tensor* dense) const {
  const size_t per_record = elements->bytes_per_record();
  if (per_record == 0 || dense->num_elements() == 0) return absl::OkStatus();  // empty strings, or nothing
  const size_t block = std::max<size_t>(kBlockBytes / per_record, 1) * per_record;
  if (dense->dtype() != DType::kString) {
    absl::Span<char> rest = dense->mutable_bytes();
    const size_t piece = NeedsNoWork(*source.leaf) ? rest.size() : block;
    for (; !rest.empty(); rest.remove_prefix(std::min(piece, rest.size()))) {
      CASK_RETURN_IF_ERROR(elements->Read(rest.first(std::min(piece, rest.size()))));
    }
    return absl::OkStatus();
  }
  const uint64_t item_bytes = source.leaf->item_bytes;
  const absl::Span<std::string> strings(dense->mutable_data<std::string>(), dense->num_elements());
  std::string fixed;
  for (size_t done = 0; done < strings.size();) {
    fixed.resize(std::min<uint64_t>(block, (strings.size() - done) * item_bytes));
    CASK_RETURN_IF_ERROR(elements->Read(absl::MakeSpan(&fixed[0], fixed.size())));
    const size_t count = fixed.size() / item_bytes;
    CASK_RETURN_IF_ERROR(DecodeStrings(*source.leaf, fixed, done, strings.subspan(done, count)));
    done += count;
  }
  return absl::OkStatus();
}

// The elements of the records in `box`: dense in the order of the file, seen with the axes of the tensor.
absl::StatusOr<TensorView> TensorFile::ReadBox(const Source& source, const Box& box) const {
  const NpyHeader& header = source.array->header;
  if (box.is_whole() && source.entry->shares_pass) {
    CASK_ASSIGN_OR_RETURN(Tensor dense, ReadField(source));
    return InTensorOrder(std::move(dense), header);
  }
  CASK_RETURN_IF_ERROR(CheckRecord(*source.array));
  DimVector dims = box.lengths;
  dims.insert(dims.end(), source.leaf->dims.begin(), source.leaf->dims.end());
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Create(dims));
  CASK_RETURN_IF_ERROR(Charge(source, static_cast<uint64_t>(shape.num_elements())));
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<DataCursor> cursor,
                        source.array->data->Open(box.is_whole() ? ArrayData::Use::kWhole : ArrayData::Use::kPart));
  CASK_ASSIGN_OR_RETURN(Tensor dense, Tensor::Create(source.entry->dtype, shape, options_.allocator));
  CASK_RETURN_IF_ERROR(dense.EnsureMutable());
  RecordBox records(cursor.get(), box, header.record_bytes);
  ElementReader elements(&records, &header, source.leaf, options_.allow_odd_bools);
  CASK_RETURN_IF_ERROR(FillElements(source, &elements, &dense));
  CASK_RETURN_IF_ERROR(cursor->Finish());
  return InTensorOrder(dense, header);
}

absl::StatusOr<TensorView> TensorFile::ReadPart(const Source& source, const TensorSlice& slice) const {
  CASK_RETURN_IF_ERROR(source.entry->readable);
  CASK_RETURN_IF_ERROR(slice.Apply(source.entry->shape).status());
  CASK_ASSIGN_OR_RETURN(TensorView view, ReadBox(source, BoxOf(source.array->header, slice)));
  return SliceInside(std::move(view), source.array->header, slice);
}

// The same into existing memory; without a copy aside where the order is that of the file.
absl::Status TensorFile::ReadPartInto(const Source& source, const TensorSlice& slice, TensorView* out) const {
  CASK_RETURN_IF_ERROR(source.entry->readable);
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, slice.Apply(source.entry->shape));
  CASK_RETURN_IF_ERROR(stored::CheckTarget(source.entry->dtype, shape, *out));
  const NpyHeader& header = source.array->header;
  const bool in_order = !header.fortran_order || header.shape.rank() < 2;
  if (header.is_structured || !in_order || out->dtype() == DType::kString) {
    CASK_ASSIGN_OR_RETURN(const TensorView view, ReadPart(source, slice));
    return internal::CopyFromHost(view, out);
  }
  const Box box = BoxOf(header, slice);
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<DataCursor> cursor,
                        source.array->data->Open(box.is_whole() ? ArrayData::Use::kWhole : ArrayData::Use::kPart));
  RecordBox records(cursor.get(), box, header.record_bytes);
  ElementReader elements(&records, &header, source.leaf, options_.allow_odd_bools);
  const size_t block = out->IsContiguous() && NeedsNoWork(*source.leaf) ? kLargeBlockBytes : kBlockBytes;
  CASK_RETURN_IF_ERROR(FillRowMajorPieces(out, block, [&](absl::Span<char> bytes) { return elements.Read(bytes); }));
  return cursor->Finish();
}

absl::StatusOr<Tensor> TensorFile::DenseTensor(const TensorView& view) const {
  if (view.IsContiguous()) return view.ToTensor();
  CASK_ASSIGN_OR_RETURN(const TensorView dense, view.Clone(MemoryFormat::kContiguous, options_.allocator));
  return dense.ToTensor();
}

absl::StatusOr<TensorView> TensorFile::ReadView(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const Source source, Lookup(name));
  absl::StatusOr<TensorView> view = ReadPart(source, TensorSlice::Full(source.entry->shape.rank()));
  if (!view.ok()) return About(view.status(), *source.entry);
  return view;
}

absl::StatusOr<Tensor> TensorFile::Read(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const TensorView view, ReadView(name));
  return DenseTensor(view);
}

absl::Status TensorFile::ReadInto(absl::string_view name, TensorView* out) const {
  CASK_ASSIGN_OR_RETURN(const Source source, Lookup(name));
  return About(ReadPartInto(source, TensorSlice::Full(source.entry->shape.rank()), out), *source.entry);
}

absl::Status TensorFile::VerifyOnce(const Source& source) const {
  CASK_RETURN_IF_ERROR(source.entry->readable);
  if (!source.array->data->is_unverified()) return absl::OkStatus();
  return VerifyData(*source.array->data, source.array->header.data_bytes);
}

absl::StatusOr<Tensor> TensorFile::ReadSlice(absl::string_view name, const TensorSlice& slice,
                                             bool verify_whole) const {
  CASK_ASSIGN_OR_RETURN(const Source source, Lookup(name));
  if (verify_whole) CASK_RETURN_IF_ERROR(About(VerifyOnce(source), *source.entry));
  const absl::StatusOr<TensorView> view = ReadPart(source, slice);
  if (!view.ok()) return About(view.status(), *source.entry);
  return DenseTensor(*view);
}

absl::Status TensorFile::ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out,
                                       bool verify_whole) const {
  CASK_ASSIGN_OR_RETURN(const Source source, Lookup(name));
  if (verify_whole) CASK_RETURN_IF_ERROR(About(VerifyOnce(source), *source.entry));
  return About(ReadPartInto(source, slice, out), *source.entry);
}

absl::StatusOr<std::vector<NpyTensor>> TensorFile::ReadAll(int num_threads,
                                                           const std::function<bool(const NpyEntry&)>& wanted) const {
  std::vector<size_t> indices;
  DecodeQuota quota = DecodeQuota::ForFile(options_.limits);
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (wanted && !wanted(entries_[i])) continue;
    indices.push_back(i);
    const absl::Status charged =
        quota.Charge(DecodedBytes(SourceOf(i), static_cast<uint64_t>(entries_[i].shape.num_elements())));
    if (!charged.ok()) return About(charged, entries_[i]);
  }
  std::vector<NpyTensor> tensors(indices.size());
  std::vector<absl::Status> statuses(indices.size());
  ReadPlan plan;
  const StepOrder order = plan.StartSteps(indices.size(), [&](size_t i) -> ReadPlan::Step {
    const NpyEntry& entry = entries_[indices[i]];
    // The fields of an array share its bytes, each of which a plan gives once.
    if (!entry.field().empty()) return {};
    const FileRange range = RangeOf(entry.name);
    return {source_, range.offset, range.size_bytes};
  });
  CASK_RETURN_IF_ERROR(ParallelFor(num_threads, indices.size(), [&](size_t position) {
    const size_t i = order[position];
    tensors[i].name = entries_[indices[i]].name;
    absl::StatusOr<Tensor> tensor = Read(tensors[i].name);
    if (tensor.ok()) {
      tensors[i].tensor = *std::move(tensor);
    } else {
      statuses[i] = tensor.status();
    }
  }));
  for (const absl::Status& status : statuses) CASK_RETURN_IF_ERROR(status);
  return tensors;
}

// The elements where they lie in the mapped file. Errors: any, if they do not lie there as in memory.
absl::StatusOr<TensorView> TensorFile::MapView(const Source& source) const {
  const NpyHeader& header = source.array->header;
  const NpyLeaf& leaf = *source.leaf;
  const std::optional<uint64_t> stored_at = source.array->data->stored_at();
  const auto item_bytes = static_cast<int64_t>(leaf.item_bytes);
  const bool is_bool = leaf.kind == 'b';
  if (!stored_at || source.entry->shape.num_elements() == 0 || source.entry->dtype == DType::kString ||
      (leaf.big_endian && item_bytes > 1) || header.record_bytes % leaf.item_bytes != 0 ||
      (is_bool && header.is_structured)) {
    return absl::UnimplementedError("cannot be mapped");
  }
  const int rank = header.shape.rank();
  DimVector dims = header.shape.dims();
  DimVector strides(rank);
  auto step = static_cast<int64_t>(header.record_bytes / leaf.item_bytes);
  for (int i = 0; i < rank; ++i) {
    const int axis = header.fortran_order ? i : rank - 1 - i;
    strides[axis] = step;
    step *= dims[axis];
  }
  for (size_t axis = 0; axis < leaf.dims.size(); ++axis) {
    if (leaf.byte_strides[axis] % item_bytes != 0) return absl::UnimplementedError("cannot be mapped");
    dims.push_back(leaf.dims[axis]);
    strides.push_back(leaf.byte_strides[axis] / item_bytes);
  }
  CASK_ASSIGN_OR_RETURN(Layout layout, Layout::Create(dims, strides));
  CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> buffer,
                        source_->Map(*stored_at + leaf.offset, header.data_bytes - leaf.offset));
  if (is_bool) {
    const absl::string_view bytes = buffer->bytes();
    if (!std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0 || c == 1; })) {
      return absl::UnimplementedError("cannot be mapped");  // the copy says what is wrong, or makes bools of the bytes
    }
  }
  return TensorView::Create(std::move(buffer), source.entry->dtype, std::move(layout));
}

absl::StatusOr<TensorView> TensorFile::Map(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const Source source, Lookup(name));
  if (!source.entry->readable.ok()) return About(source.entry->readable, *source.entry);
  absl::StatusOr<TensorView> view = MapView(source);
  if (!view.ok()) return ReadView(name);
  if (options_.verify_checksums && source.array->data->is_unverified()) {
    const absl::Status verified = VerifyData(*source.array->data, source.array->header.data_bytes);
    if (!verified.ok()) return About(verified, *source.entry);
  }
  return view;
}

// Reads all bytes; only the checksum is compared.
absl::Status TensorFile::VerifyData(const ArrayData& data, uint64_t size_bytes) const {
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<DataCursor> cursor, data.Open(ArrayData::Use::kVerify));
  PieceBuffer block(size_bytes, kBlockBytes);
  for (uint64_t at = 0; at < size_bytes;) {
    const size_t bytes = std::min<uint64_t>(block.size(), size_bytes - at);
    CASK_RETURN_IF_ERROR(cursor->ReadAt(at, absl::MakeSpan(block.data(), bytes)));
    at += bytes;
  }
  return cursor->Finish();
}

absl::Status TensorFile::VerifyElements(const Source& source) const {
  CASK_RETURN_IF_ERROR(source.entry->readable);
  const NpyHeader& header = source.array->header;
  const NpyLeaf& leaf = *source.leaf;
  if (leaf.kind != 'b' && leaf.kind != 'U') return VerifyData(*source.array->data, header.data_bytes);
  CASK_RETURN_IF_ERROR(CheckRecord(*source.array));
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<DataCursor> cursor, source.array->data->Open(ArrayData::Use::kVerify));
  Box box = BoxOf(header, TensorSlice::Full(header.shape.rank()));
  RecordBox records(cursor.get(), box, header.record_bytes);
  ElementReader elements(&records, &header, &leaf, options_.allow_odd_bools);
  const size_t per_record = elements.bytes_per_record();
  uint64_t left = per_record == 0 ? 0 : static_cast<uint64_t>(header.shape.num_elements());
  uint64_t done = 0;
  std::string block;
  std::vector<std::string> strings;
  while (left > 0) {
    const uint64_t count = std::min<uint64_t>(left, std::max<size_t>(kBlockBytes / per_record, 1));
    block.resize(count * per_record);
    CASK_RETURN_IF_ERROR(elements.Read(absl::MakeSpan(&block[0], block.size())));
    if (leaf.kind == 'U') {
      strings.resize(block.size() / leaf.item_bytes);
      CASK_RETURN_IF_ERROR(DecodeStrings(leaf, block, done, absl::MakeSpan(strings)));
    }
    done += block.size() / leaf.item_bytes;
    left -= count;
  }
  return cursor->Finish();
}

absl::Status TensorFile::Verify(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const Source source, Lookup(name));
  return About(VerifyElements(source), *source.entry);
}

absl::Status TensorFile::VerifyAll(absl::FunctionRef<void(const NpyDamage&)> report) const {
  ReadPlan plan;
  const StepOrder order = plan.StartSteps(arrays_.size(), [&](size_t number) -> ReadPlan::Step {
    const Array& array = *arrays_[number];
    if (array.data == nullptr) return {};
    const FileRange place = array.data->place();
    return {source_, place.offset, place.size_bytes};
  });
  for (size_t position = 0; position < order.size(); ++position) {
    const std::unique_ptr<Array>& array = arrays_[order[position]];
    std::vector<absl::Status> statuses(array->header.leaves.size());
    if (array->header.is_structured && !array->header.has_objects) {
      VerifyFields(*array, absl::MakeSpan(statuses));
    } else {
      const Source first = SourceOf(array->first_entry);
      // Of what cannot be read the checksum is compared (Finish reads all that is left).
      const absl::Status status = array->data == nullptr       ? first.entry->readable
                                  : first.entry->readable.ok() ? VerifyElements(first)
                                                               : VerifyData(*array->data, 0);
      std::fill(statuses.begin(), statuses.end(), status);
    }
    for (size_t i = 0; i < statuses.size(); ++i) {
      const NpyEntry& entry = entries_[array->first_entry + i];
      const absl::Status status = About(statuses[i], entry);
      if (IsResourceFailure(status)) return status;
      if (!status.ok()) report({entry.name, status});
    }
  }
  for (size_t i = 0; i < others_.size(); ++i) {
    const absl::Status status = VerifyData(*others_[i].data, others_[i].size_bytes);
    if (IsResourceFailure(status)) return status;
    if (!status.ok()) {
      report({"", Annotate(status, absl::StrCat(source_->name(), ": member ", Quoted(other_members_[i]))),
              /*is_tensor=*/false});
    }
  }
  for (const absl::Status& status : damages_) report({"", status, /*is_tensor=*/false});
  return absl::OkStatus();
}

}  // namespace tensorcask::npy
