#include "tensorcask/serialize/torch/torch_reader.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/stored/elements.h"
#include "tensorcask/serialize/stored/name_order.h"
#include "tensorcask/serialize/stored/stored_tensor.h"
#include "tensorcask/serialize/stored/verified_once.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/serialize/torch/internal/quantizer.h"
#include "tensorcask/serialize/torch/internal/sparse_indices.h"
#include "tensorcask/serialize/torch/internal/stored_tensors.h"
#include "tensorcask/serialize/torch/internal/tensor_list.h"
#include "tensorcask/serialize/torch/internal/tensor_walk.h"
#include "tensorcask/serialize/torch/internal/torch_file.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/serialize/zip/zip_directory.h"
#include "tensorcask/serialize/zip/zip_member_stream.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/checksum.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/strided/device_elements.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask {
namespace torch {
namespace {

// Bytes of a zip record from front to back, inflated.
absl::Status InflateRecord(const ByteSource& file, const ZipMember& member, bool verify, std::string* bytes) {
  bytes->resize(static_cast<size_t>(member.size_bytes));
  ZipMemberStream stream(&file, &member, verify);
  CASK_RETURN_IF_ERROR(stream.Read(absl::MakeSpan(bytes->data(), bytes->size())));
  return stream.Finish();
}

}  // namespace

class ReaderImpl {
 public:
  ReaderImpl(TorchFile file, TensorList list, const TorchReaderOptions& options)
      : file_(std::move(file)), list_(std::move(list)), options_(options) {
    notes_ = file_.notes;
    for (std::string& note : NotesOf(file_, list_)) notes_.push_back(std::move(note));
    how_.accept_odd_bools = options_.lenient;
    how_.odd_bools_hint = " (lenient accepts this)";
    how_.strategy = options_.read.strategy;
    how_.num_threads = options_.read.num_threads;
    how_.allocator = options_.allocator;
    how_.verify = options_.verify;
    how_.verified = &verified_;
  }

  const TorchFile& file() const { return file_; }
  const std::string& path() const { return file_.source->name(); }
  bool has_names() const { return list_.has_names; }
  const std::vector<TorchEntry>& entries() const { return list_.entries; }

  absl::StatusOr<size_t> Locate(absl::string_view name) const {
    const TorchEntry* const found = stored::FindByName(list_.entries, name);
    if (found != nullptr) return static_cast<size_t>(found - list_.entries.data());
    return absl::NotFoundError(absl::StrCat(path(), ": no tensor ", Quoted(name)));
  }

  // `status`, if it is an error, with the place of the tensor.
  absl::Status At(size_t number, const absl::Status& status) const {
    if (status.ok()) return status;
    const TorchEntry& of = list_.entries[number];
    return MarkDamagedPart(Annotate(
        status, absl::StrCat(path(), ": tensor ", Quoted(of.name),
                             of.offset.has_value() ? absl::StrCat(" at offset ", *of.offset) : std::string())));
  }

  ValueTree Values() const {
    absl::flat_hash_map<Ref, uint64_t> numbers;
    for (size_t i = list_.entries.size(); i > 0; --i) {
      if (list_.sources[i - 1].part == 0) numbers[list_.sources[i - 1].object] = i - 1;
    }
    return ToValues(file_.parts[0].pickle, numbers);
  }

  const std::vector<std::string>& notes() const { return notes_; }
  std::vector<std::string> NotWritten() const { return torch::NotWritten(file_, list_); }

  // ---- Reading ------------------------------------------------------------------------------------------------------

  absl::StatusOr<Tensor> Read(size_t number) const {
    absl::StatusOr<Tensor> tensor = ReadWhole(number);
    if (!tensor.ok()) return At(number, tensor.status());
    return tensor;
  }

  absl::StatusOr<TensorView> ReadView(size_t number) const {
    if (list_.entries[number].strides.empty()) {
      CASK_ASSIGN_OR_RETURN(Tensor tensor, Read(number));
      return TensorView(std::move(tensor));
    }
    const auto read = [&]() -> absl::StatusOr<TensorView> {
      CASK_ASSIGN_OR_RETURN(const TensorPlace place, Readable(number));
      CASK_ASSIGN_OR_RETURN(const Opened opened, Open(number, place));
      CASK_RETURN_IF_ERROR(Charge(place, place.layout));
      return stored::ReadElementsAsStored(*opened.source, Stored(place, opened), how_);
    };
    absl::StatusOr<TensorView> view = read();
    if (!view.ok()) return At(number, view.status());
    return view;
  }

  absl::Status ReadInto(size_t number, const TensorSlice* slice, TensorView* out) const {
    const auto read = [&]() -> absl::Status {
      CASK_ASSIGN_OR_RETURN(const TensorPlace place, Readable(number));
      TensorShape shape = place.layout.shape();
      if (slice != nullptr) {
        CASK_ASSIGN_OR_RETURN(shape, slice->Apply(shape));
      }
      CASK_RETURN_IF_ERROR(stored::CheckTarget(place.dtype, shape, *out));
      CASK_ASSIGN_OR_RETURN(const Opened opened, Open(number, place, slice));
      return ReadPart(place, opened, slice, out);
    };
    return At(number, read());
  }

  absl::StatusOr<Tensor> ReadSlice(size_t number, const TensorSlice& slice) const {
    const auto read = [&]() -> absl::StatusOr<Tensor> {
      CASK_ASSIGN_OR_RETURN(const TensorPlace place, Readable(number));
      CASK_ASSIGN_OR_RETURN(const TensorShape shape, slice.Apply(place.layout.shape()));
      CASK_ASSIGN_OR_RETURN(const Opened opened, Open(number, place, &slice));
      return Make(place, opened, &slice, shape);
    };
    absl::StatusOr<Tensor> tensor = read();
    if (!tensor.ok()) return At(number, tensor.status());
    return tensor;
  }

  absl::StatusOr<Tensor> Map(size_t number) const {
    const auto map = [&]() -> absl::StatusOr<Tensor> {
      CASK_ASSIGN_OR_RETURN(const TensorPlace place, Readable(number));
      CASK_ASSIGN_OR_RETURN(const Opened opened, Open(number, place));
      const stored::StoredTensor tensor = Stored(place, opened);
      if (HasBits(place) || opened.memory != nullptr || !place.layout.IsContiguous() || !stored::CanMap(tensor)) {
        return absl::UnimplementedError("");
      }
      return stored::MapElements(*opened.source, tensor, how_);
    };
    absl::StatusOr<Tensor> tensor = map();
    if (absl::IsUnimplemented(tensor.status())) return Read(number);
    if (!tensor.ok()) return At(number, tensor.status());
    return tensor;
  }

  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(size_t number) const {
    const auto open = [&]() -> absl::StatusOr<std::unique_ptr<ElementStream>> {
      CASK_ASSIGN_OR_RETURN(const TensorPlace place, Readable(number));
      CASK_ASSIGN_OR_RETURN(const Opened opened, Open(number, place));
      if (!list_.entries[number].reads_in_blocks || !place.layout.IsContiguous()) {
        return std::unique_ptr<ElementStream>();
      }
      return stored::OpenElements(*opened.source, Stored(place, opened), how_,
                                  [this, number](const absl::Status& status) { return At(number, status); });
    };
    absl::StatusOr<std::unique_ptr<ElementStream>> stream = open();
    if (!stream.ok()) return At(number, stream.status());
    return stream;
  }

  absl::StatusOr<TensorMetadata> Metadata(size_t number) const {
    const TensorSource& source = list_.sources[number];
    const Pickle& pickle = file_.parts[source.part].pickle;
    TensorMetadata metadata;
    metadata.requires_grad = PlaceOf(pickle, source.object).requires_grad && list_.entries[number].has_metadata;
    const Object& object = pickle.object(source.object);
    if (object.kind != Object::Kind::kTensor) return metadata;
    const PickledTensor& tensor = pickle.tensors[object.index];
    if (tensor.form != PickledTensor::Form::kQuantized) return metadata;
    const absl::Status status = AddQuantizer(
        pickle, tensor.parts, list_.entries[number].shape,
        [&](Ref object) { return ReadParameter(source.part, object); }, &metadata);
    if (!status.ok()) return At(number, status);
    return metadata;
  }

  absl::Status VerifyAll(absl::FunctionRef<void(const TorchDamage&)> report) const {
    const bool has_checksums = std::any_of(file_.members.begin(), file_.members.end(),
                                           [](const ZipMember& member) { return member.crc32 != 0; });
    // Each member once, whatever was verified before.
    absl::flat_hash_map<size_t, absl::Status> members;
    const auto verify = [&](size_t member) -> absl::Status {
      const auto [found, is_new] = members.try_emplace(member, absl::OkStatus());
      if (is_new && has_checksums) found->second = VerifyMember(member);
      return found->second;
    };
    const auto verify_other = [&](size_t member) -> absl::Status {
      const absl::Status status = verify(member);
      if (IsResourceFailure(status)) return status;
      if (status.ok()) return absl::OkStatus();
      const ZipMember& of = file_.members[member];
      report({"", path(), of.data_offset,
              Annotate(status, absl::StrCat(path(), ": member ", Quoted(of.name), " at offset ", of.data_offset))});
      return absl::OkStatus();
    };
    std::vector<bool> is_damaged(list_.entries.size());
    std::vector<size_t> others;
    ReadPlan plan;
    const std::vector<ReadPlan::Step> steps = MembersToVerify(&others);
    const StepOrder order = plan.StartSteps(steps.size(), [&](size_t number) { return steps[number]; });
    for (size_t position = 0; position < order.size(); ++position) {
      const size_t i = order[position];
      if (i >= list_.entries.size()) {
        CASK_RETURN_IF_ERROR(verify_other(others[i - list_.entries.size()]));
        continue;
      }
      if (absl::IsUnimplemented(list_.entries[i].read_status)) continue;
      const absl::Status status = [&]() -> absl::Status {
        CASK_ASSIGN_OR_RETURN(const TensorPlace place, Readable(i));
        const Record& record = RecordOf(i, place);
        if (record.member != Record::kNoMember) CASK_RETURN_IF_ERROR(verify(record.member));
        if (place.dtype != DType::kBool) return absl::OkStatus();
        CASK_ASSIGN_OR_RETURN(const Opened opened, OpenRecord(record, /*verify=*/false, place.size_bytes()));
        return stored::VerifyElements(*opened.source, Window(place, opened, place.layout), how_);
      }();
      if (IsResourceFailure(status)) return status;
      if (status.ok()) continue;
      is_damaged[i] = true;
      report(DamageOf(i, status));
    }
    return VerifySparse(&is_damaged, report);
  }

 private:
  // What a record is read from.
  struct Opened {
    const ByteSource* source = nullptr;
    uint64_t offset = 0;  // where the record begins in it
    bool big_endian = false;
    Checksum checksum;  // that of the record, if reading the tensor verifies it
    uint64_t storage_id = 0;
    std::shared_ptr<const std::string> bytes;  // those of a record that was inflated
    std::shared_ptr<const ByteSource> memory;  // has one that was inflated, or is in the pickle
  };

  static bool HasBits(const TensorPlace& place) { return place.conj || place.neg; }

  // ---- Records ------------------------------------------------------------------------------------------------------

  bool IsDeflated(const Record& record) const {
    return record.member != Record::kNoMember && file_.members[record.member].deflated;
  }

  const Record& RecordOf(size_t number, const TensorPlace& place) const {
    return file_.parts[list_.sources[number].part].records[place.storage_number];
  }

  absl::StatusOr<TensorPlace> Readable(size_t number) const {
    CASK_RETURN_IF_ERROR(list_.entries[number].read_status);
    return PlaceOf(file_.parts[list_.sources[number].part].pickle, list_.sources[number].object);
  }

  TorchDamage DamageOf(size_t number, const absl::Status& status) const {
    const TorchEntry& entry = list_.entries[number];
    return {entry.name, path(), entry.offset.value_or(0), At(number, status)};
  }

  absl::Status VerifyMember(size_t member) const {
    return ZipMemberStream(file_.source.get(), &file_.members[member], /*verify=*/true).Finish();
  }

  // What VerifyAll reads: the members of the tensors, each with its first tensor, and then the others.
  std::vector<ReadPlan::Step> MembersToVerify(std::vector<size_t>* others) const {
    std::vector<ReadPlan::Step> steps(list_.entries.size());
    std::vector<bool> has_tensor(file_.members.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      const absl::StatusOr<TensorPlace> place = Readable(i);
      if (!place.ok()) continue;
      const size_t number = RecordOf(i, *place).member;
      if (number == Record::kNoMember || has_tensor[number]) continue;
      has_tensor[number] = true;
      steps[i] = {file_.source, file_.members[number].data_offset, file_.members[number].stored_bytes};
    }
    for (size_t number = 0; number < file_.members.size(); ++number) {
      const ZipMember& member = file_.members[number];
      if (has_tensor[number]) continue;
      steps.push_back({file_.source, member.data_offset, member.stored_bytes});
      others->push_back(number);
    }
    return steps;
  }

  // Whether reading the tensor passes by each byte of its record, in order.
  bool CoversRecord(const TensorPlace& place, const Record& record) const {
    return record.member != Record::kNoMember && !IsDeflated(record) && place.layout.num_elements() > 0 &&
           place.layout.IsNonOverlappingAndDense() && place.begin() == 0 && place.size_bytes() == record.size_bytes;
  }

  // Opens the record to read the tensor, or the slice of it. For a whole tensor, the checksum of the record is compared
  // now, or while the tensor is read, if that is all of it.
  absl::StatusOr<Opened> Open(size_t number, const TensorPlace& place, const TensorSlice* slice = nullptr) const {
    const Record& record = RecordOf(number, place);
    Layout part = place.layout;
    if (slice != nullptr) {
      CASK_ASSIGN_OR_RETURN(part, part.Slice(*slice));
    }
    const bool verify = slice == nullptr;
    const uint64_t bytes = BytesOf(place, part);
    if (!verify || !record.has_checksum || !CoversRecord(place, record)) return OpenRecord(record, verify, bytes);
    CASK_ASSIGN_OR_RETURN(Opened opened, OpenRecord(record, /*verify=*/false, bytes));
    opened.checksum = {ChecksumKind::kCrc32, file_.members[record.member].crc32};
    opened.storage_id = StorageId(record);
    return opened;
  }

  // Of StoredTensor and VerifiedOnce.
  static uint64_t StorageId(const Record& record) { return record.member + 1; }

  // The bytes of the elements, each counted once.
  static uint64_t BytesOf(const TensorPlace& place, const Layout& part) {
    const Layout::Range bounds = part.bounds();
    return static_cast<uint64_t>(std::min(part.num_elements(), bounds.end - bounds.begin)) * place.element_bytes;
  }

  // Verifies the record the first time. `wanted`: the bytes that are read of it. A deflated record is inflated as a
  // whole.
  absl::StatusOr<Opened> OpenRecord(const Record& record, bool verify, uint64_t wanted) const {
    Opened opened;
    opened.source = file_.source.get();
    opened.offset = record.offset;
    opened.big_endian = file_.big_endian;
    if (record.in_line) {
      opened.memory = MakeMemorySource(path(), record.bytes);
      opened.source = opened.memory.get();
      opened.big_endian = false;
      return opened;
    }
    if (record.member == Record::kNoMember) return opened;
    verify = (verify || IsDeflated(record)) && options_.verify && record.has_checksum;
    if (!IsDeflated(record)) {
      if (verify && !verified_.Contains(StorageId(record))) {
        CASK_RETURN_IF_ERROR(VerifyMember(record.member));
        verified_.Add(StorageId(record));
      }
      return opened;
    }
    const ZipMember& member = file_.members[record.member];
    CASK_RETURN_IF_ERROR(DecodeQuota::ForFile(options_.limits).Charge(member.size_bytes));
    CASK_RETURN_IF_ERROR(DecodeQuota::ForUnbacked(options_.limits, CheckedAdd(member.stored_bytes, wanted).value_or(0))
                             .Charge(member.size_bytes));
    const std::lock_guard<std::mutex> lock(inflated_mutex_);
    if (inflated_member_ != record.member) {
      auto bytes = std::make_shared<std::string>();
      CASK_RETURN_IF_ERROR(InflateRecord(*file_.source, member, verify, bytes.get()));
      inflated_ = std::move(bytes);
      inflated_member_ = record.member;
    }
    opened.bytes = inflated_;
    opened.memory = MakeMemorySource(path(), *opened.bytes);
    opened.source = opened.memory.get();
    opened.offset = 0;
    return opened;
  }

  // ---- Elements -----------------------------------------------------------------------------------------------------

  // The elements from the first to the last, as a vector.
  stored::StoredTensor Window(const TensorPlace& place, const Opened& opened, const Layout& layout) const {
    stored::StoredTensor window;
    const Layout::Range range = layout.bounds();
    window.dtype = place.dtype;
    window.shape = TensorShape({range.end - range.begin});
    window.offset = opened.offset + place.first_byte + static_cast<uint64_t>(range.begin) * place.element_bytes;
    window.stored_bytes = static_cast<uint64_t>(range.end - range.begin) * place.element_bytes;
    window.big_endian = opened.big_endian;
    return window;
  }

  // Requires: the layout is dense.
  stored::StoredTensor Stored(const TensorPlace& place, const Opened& opened) const {
    stored::StoredTensor tensor = Window(place, opened, place.layout);
    tensor.shape = place.layout.shape();
    tensor.checksum = opened.checksum;
    tensor.storage_id = opened.storage_id;
    if (!place.layout.IsContiguous()) {
      tensor.layout = *Layout::Create(place.layout.dims(), place.layout.strides());  // from the first element on
    }
    return tensor;
  }

  // Charges the elements of the part, and what they repeat: before memory is asked for.
  absl::Status Charge(const TensorPlace& place, const Layout& part) const {
    const uint64_t window = static_cast<uint64_t>(part.bounds().end - part.bounds().begin) * place.element_bytes;
    const std::optional<uint64_t> bytes = CheckedMul(static_cast<uint64_t>(part.num_elements()), place.element_bytes);
    DecodeQuota quota = DecodeQuota::ForFile(options_.limits);
    CASK_RETURN_IF_ERROR(quota.Charge(bytes.value_or(DecodeQuota::kTooMany)));
    CASK_RETURN_IF_ERROR(quota.Charge(window));
    return DecodeQuota::ForUnbacked(options_.limits, window).Charge(*bytes);
  }

  absl::StatusOr<Tensor> ReadWhole(size_t number) const {
    CASK_ASSIGN_OR_RETURN(const TensorPlace place, Readable(number));
    CASK_ASSIGN_OR_RETURN(const Opened opened, Open(number, place));
    return Make(place, opened, nullptr, place.layout.shape());
  }

  absl::StatusOr<Tensor> Make(const TensorPlace& place, const Opened& opened, const TensorSlice* slice,
                              const TensorShape& shape) const {
    Layout part = place.layout;
    if (slice != nullptr) {
      CASK_ASSIGN_OR_RETURN(part, part.Slice(*slice));
    }
    CASK_RETURN_IF_ERROR(Charge(place, part));
    CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(place.dtype, shape, options_.allocator));
    CASK_RETURN_IF_ERROR(tensor.EnsureMutable());
    TensorView view = tensor;
    CASK_RETURN_IF_ERROR(ReadElements(place, opened, slice, &view));
    ApplyBits(place, &tensor);
    return tensor;
  }

  absl::Status ReadPart(const TensorPlace& place, const Opened& opened, const TensorSlice* slice,
                        TensorView* out) const {
    if (HasBits(place)) {
      CASK_ASSIGN_OR_RETURN(const Tensor tensor, Make(place, opened, slice, out->shape()));
      return internal::CopyFromHost(tensor, out);
    }
    return ReadElements(place, opened, slice, out);
  }

  // Without the bits.
  absl::Status ReadElements(const TensorPlace& place, const Opened& opened, const TensorSlice* slice,
                            TensorView* out) const {
    if (place.layout.num_elements() == 0) return absl::OkStatus();
    if (place.layout.IsNonOverlappingAndDense()) {
      const stored::StoredTensor tensor = Stored(place, opened);
      return slice == nullptr ? stored::ReadElementsInto(*opened.source, tensor, how_, out)
                              : stored::ReadSliceOfElementsInto(*opened.source, tensor, *slice, how_, out);
    }
    Layout part = place.layout;
    if (slice != nullptr) {
      CASK_ASSIGN_OR_RETURN(part, part.Slice(*slice));
    }
    CASK_RETURN_IF_ERROR(Charge(place, part));
    CASK_ASSIGN_OR_RETURN(const Tensor window, stored::ReadElements(*opened.source, Window(place, opened, part), how_));
    CASK_ASSIGN_OR_RETURN(const Layout within, Layout::Create(part.dims(), part.strides()));
    CASK_ASSIGN_OR_RETURN(const TensorView view, TensorView::Create(window.buffer(), place.dtype, within));
    return internal::CopyFromHost(view, out);
  }

  // ---- Sparse tensors -----------------------------------------------------------------------------------------------

  // VerifyAll for the indices of sparse tensors, of which is_damaged[i] is false. What is read for them all together
  // may have as many bytes as the records, inflated, and max_memory_beyond_input: a short pickle may make many tensors
  // of the same indices.
  absl::Status VerifySparse(std::vector<bool>* is_damaged, absl::FunctionRef<void(const TorchDamage&)> report) const {
    if (std::none_of(list_.entries.begin(), list_.entries.end(),
                     [](const TorchEntry& entry) { return entry.encoding == "sparse"; })) {
      return absl::OkStatus();
    }
    absl::flat_hash_map<std::pair<size_t, Ref>, std::vector<size_t>> entries;  // the numbers of those of an object
    for (size_t i = 0; i < list_.entries.size(); ++i) {
      entries[{list_.sources[i].part, list_.sources[i].object}].push_back(i);
    }
    uint64_t backed = file_.source->size_bytes();
    for (const ZipMember& member : file_.members) {
      if (member.deflated) backed = CheckedAdd(backed, member.size_bytes).value_or(DecodeQuota::kTooMany);
    }
    DecodeQuota quota = DecodeQuota::ForUnbacked(options_.limits, backed);
    for (size_t i = 0; i < list_.entries.size(); ++i) {
      const size_t part = list_.sources[i].part;
      const Ref object = list_.sources[i].object;
      if (list_.entries[i].encoding != "sparse" || entries[{part, object}].front() != i) continue;
      const Pickle& pickle = file_.parts[part].pickle;
      const PickledTensor& sparse = pickle.tensors[pickle.object(object).index];
      std::vector<size_t> of_indices;  // the first entry of each tensor with indices
      for (size_t k = 0; k < NumIndexParts(pickle, sparse); ++k) {
        const std::vector<size_t>& found = entries[{part, pickle.items(sparse.parts)[k]}];
        if (found.empty() || (*is_damaged)[found.front()] || !list_.entries[found.front()].read_status.ok()) break;
        of_indices.push_back(found.front());
      }
      if (of_indices.empty() || of_indices.size() < NumIndexParts(pickle, sparse)) continue;
      size_t wrong = 0;
      const absl::Status status = CheckSparse(pickle, sparse, of_indices, &quota, &wrong);
      if (status.ok()) continue;
      if (IsResourceFailure(status)) return status;
      for (const size_t number : entries[{part, pickle.items(sparse.parts)[wrong]}]) {
        (*is_damaged)[number] = true;
        report(DamageOf(number, status));
      }
    }
    return absl::OkStatus();
  }

  // Requires: the entries `of_indices` can be read. Sets *wrong as CheckSparseIndices does.
  absl::Status CheckSparse(const Pickle& pickle, const PickledTensor& sparse, absl::Span<const size_t> of_indices,
                           DecodeQuota* quota, size_t* wrong) const {
    std::vector<IndexReader> readers;
    for (const size_t number : of_indices) {
      *wrong = readers.size();
      CASK_ASSIGN_OR_RETURN(const TensorPlace place, Readable(number));
      const Record& record = RecordOf(number, place);
      const uint64_t elements = CheckedMul(static_cast<uint64_t>(place.layout.num_elements()), place.element_bytes)
                                    .value_or(DecodeQuota::kTooMany);
      const uint64_t inflated = IsDeflated(record) ? file_.members[record.member].size_bytes : 0;
      CASK_RETURN_IF_ERROR(quota->Charge(std::max(elements, inflated)));
      CASK_ASSIGN_OR_RETURN(const Opened opened, OpenRecord(record, /*verify=*/false, place.size_bytes()));
      readers.push_back(
          [this, place, opened](const Layout& layout, const TensorSlice& slice) -> absl::StatusOr<Tensor> {
            TensorPlace part = place;
            part.layout = layout;
            CASK_ASSIGN_OR_RETURN(const TensorShape shape, slice.Apply(layout.shape()));
            return Make(part, opened, &slice, shape);
          });
    }
    return CheckSparseIndices(pickle, sparse, readers, wrong);
  }

  // ---- Metadata -----------------------------------------------------------------------------------------------------

  // Scales or zero points of a quantized tensor.
  absl::StatusOr<Tensor> ReadParameter(size_t part, Ref object) const {
    constexpr uint64_t kMostBytes = uint64_t{1} << 20;
    const TensorPlace place = PlaceOf(file_.parts[part].pickle, object);
    CASK_RETURN_IF_ERROR(WhyNotRead(place));
    if (static_cast<uint64_t>(place.layout.num_elements()) > kMostBytes / std::max<uint64_t>(1, place.element_bytes)) {
      return absl::UnimplementedError("more than a MiB of scales");
    }
    CASK_ASSIGN_OR_RETURN(const Opened opened, OpenRecord(file_.parts[part].records[place.storage_number],
                                                          /*verify=*/true, place.size_bytes()));
    return Make(place, opened, nullptr, place.layout.shape());
  }

  const TorchFile file_;
  const TensorList list_;
  const TorchReaderOptions options_;
  stored::ElementOptions how_;
  std::vector<std::string> notes_;
  mutable stored::VerifiedOnce verified_;  // records, by StorageId
  mutable std::mutex inflated_mutex_;
  mutable std::shared_ptr<const std::string> inflated_;  // the record that was inflated last
  mutable size_t inflated_member_ = Record::kNoMember;
};

}  // namespace torch

TorchReader::TorchReader(std::unique_ptr<const torch::ReaderImpl> impl) : impl_(std::move(impl)) {}
TorchReader::TorchReader(TorchReader&&) noexcept = default;
TorchReader& TorchReader::operator=(TorchReader&&) noexcept = default;
TorchReader::~TorchReader() = default;

absl::StatusOr<TorchReader> TorchReader::Open(const std::string& path, const TorchReaderOptions& options) {
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> file, OpenFileSource(path, options.read));
  return OpenSource(std::move(file), options);
}

absl::StatusOr<TorchReader> TorchReader::OpenSource(std::shared_ptr<const ByteSource> source,
                                                    const TorchReaderOptions& options) {
  const std::shared_ptr<ListingBudget> budget =
      options.listing != nullptr ? options.listing : std::make_shared<ListingBudget>(options.limits);
  CASK_ASSIGN_OR_RETURN(
      torch::TorchFile file,
      torch::OpenTorchFile(std::move(source), {options.limits, options.opaque_objects}, budget.get()));
  CASK_ASSIGN_OR_RETURN(torch::TensorList list, torch::ListTensors(file, options.limits, budget.get()));
  return TorchReader(std::make_unique<torch::ReaderImpl>(std::move(file), std::move(list), options));
}

// Of a zip archive the first member decides: PyTorch's has one of these names in a folder.
bool TorchReader::LooksLikeTorch(absl::string_view first_bytes) {
  constexpr size_t kLocalHeaderBytes = 30;
  constexpr size_t kNameLengthOffset = 26;
  static constexpr absl::string_view kRecords[] = {
      "data.pkl",   "version", "byteorder",       "constants.pkl",      "data/", ".data/",
      "constants/", "code/",   ".format_version", ".storage_alignment", "extra/"};
  if (absl::StartsWith(first_bytes, torch::kStreamMagic)) return true;
  if (first_bytes.size() < kLocalHeaderBytes || !absl::StartsWith(first_bytes, "PK\x03\x04")) return false;
  const size_t name_bytes = static_cast<unsigned char>(first_bytes[kNameLengthOffset]) |
                            static_cast<size_t>(static_cast<unsigned char>(first_bytes[kNameLengthOffset + 1])) << 8;
  const absl::string_view name = first_bytes.substr(kLocalHeaderBytes, name_bytes);
  const size_t slash = name.find('/');
  if (slash == absl::string_view::npos || absl::EndsWith(name, ".npy")) return false;
  const absl::string_view record = name.substr(slash + 1);
  return std::any_of(std::begin(kRecords), std::end(kRecords), [&](absl::string_view known) {
    return known.back() == '/' ? absl::StartsWith(record, known) : record == known;
  });
}

const std::string& TorchReader::path() const { return impl_->path(); }
std::shared_ptr<const ByteSource> TorchReader::source() const { return impl_->file().source; }
bool TorchReader::has_names() const { return impl_->has_names(); }
const std::vector<TorchEntry>& TorchReader::entries() const { return impl_->entries(); }
ValueTree TorchReader::Values() const { return impl_->Values(); }
const std::map<std::string, std::string>& TorchReader::metadata() const { return impl_->file().metadata; }
const std::vector<std::string>& TorchReader::notes() const { return impl_->notes(); }

std::vector<std::string> TorchReader::NotWritten() const { return impl_->NotWritten(); }

const TorchEntry* TorchReader::FindEntry(absl::string_view name) const {
  const absl::StatusOr<size_t> number = impl_->Locate(name);
  return number.ok() ? &impl_->entries()[*number] : nullptr;
}

absl::StatusOr<Tensor> TorchReader::Read(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->Locate(name));
  return impl_->Read(number);
}

absl::StatusOr<TensorView> TorchReader::ReadView(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->Locate(name));
  return impl_->ReadView(number);
}

absl::Status TorchReader::ReadInto(absl::string_view name, TensorView* out) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->Locate(name));
  return impl_->ReadInto(number, nullptr, out);
}

absl::StatusOr<Tensor> TorchReader::ReadSlice(absl::string_view name, const TensorSlice& slice) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->Locate(name));
  return impl_->ReadSlice(number, slice);
}

absl::Status TorchReader::ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->Locate(name));
  return impl_->ReadInto(number, &slice, out);
}

absl::StatusOr<Tensor> TorchReader::Map(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->Locate(name));
  return impl_->Map(number);
}

absl::StatusOr<std::unique_ptr<ElementStream>> TorchReader::OpenStream(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->Locate(name));
  return impl_->OpenStream(number);
}

absl::StatusOr<TensorMetadata> TorchReader::Metadata(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->Locate(name));
  return impl_->Metadata(number);
}

absl::Status TorchReader::VerifyAll(absl::FunctionRef<void(const TorchDamage&)> report) const {
  return impl_->VerifyAll(report);
}

}  // namespace tensorcask
