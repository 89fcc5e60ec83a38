// The fields of arrays of structures: TensorFile::ReadField and VerifyFields. The elements of a field lie scattered
// over the records, so that each pass over the file is made for as many fields as memory allows.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/piece_buffer.h"
#include "tensorcask/serialize/npy/internal/array_data.h"
#include "tensorcask/serialize/npy/internal/element_reader.h"
#include "tensorcask/serialize/npy/internal/npy_header.h"
#include "tensorcask/serialize/npy/internal/tensor_file.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::npy {
namespace {

constexpr uint64_t kColumnBytes = 512;                    // what a field takes in memory besides its elements
constexpr uint64_t kSmallArrayBytes = uint64_t{1} << 20;  // all its fields are read when the first one is

// The elements of one field, in the order of the file.
struct Column {
  Tensor dense;
  LeafDecoder decoder;
  const NpyLeaf* leaf;
  uint64_t done = 0;  // bytes in the file
  absl::Status status;

  // The next elements, out of records. `fixed` is memory to work in.
  absl::Status Take(const char* records, size_t num_records, size_t record_bytes, std::string* fixed) {
    const size_t bytes = num_records * decoder.bytes_per_record();
    if (bytes == 0) return absl::OkStatus();  // empty strings, or nothing
    if (dense.dtype() != DType::kString) {
      const absl::Span<char> out = dense.mutable_bytes().subspan(done, bytes);
      done += bytes;
      decoder.Take(records, num_records, record_bytes, out.data());
      return decoder.Finish(out);
    }
    fixed->resize(bytes);
    decoder.Take(records, num_records, record_bytes, fixed->data());
    CASK_RETURN_IF_ERROR(decoder.Finish(absl::MakeSpan(fixed->data(), bytes)));
    const uint64_t first = done / leaf->item_bytes;
    done += bytes;
    return DecodeStrings(*leaf, *fixed, first,
                         absl::MakeSpan(dense.mutable_data<std::string>() + first, bytes / leaf->item_bytes));
  }
};

// A bool or a string with code points, whose elements may be wrong though the checksum is right.
struct ElementCheck {
  size_t index;  // the number of the leaf
  LeafDecoder decoder;
  uint64_t done = 0;  // elements
};

absl::Status CheckElements(const NpyLeaf& leaf, absl::Span<const char> elements, uint64_t first,
                           std::vector<std::string>* strings) {
  if (leaf.kind != 'U') return absl::OkStatus();
  strings->resize(elements.size() / leaf.item_bytes);
  return DecodeStrings(leaf, elements, first, absl::MakeSpan(*strings));
}

}  // namespace

// Fields that were read ahead, and what is known of the records.
struct TensorFile::Columns {
  std::mutex mutex;
  bool was_read = false;
  absl::Status damage;                             // what is wrong with the records as a whole
  std::vector<uint32_t> order;                     // the leaves by name: most callers read them so
  std::map<size_t, absl::StatusOr<Tensor>> ready;  // by leaf
};

TensorFile::Array::Array(NpyHeader array_header, std::unique_ptr<ArrayData> array_data, size_t first)
    : header(std::move(array_header)), data(std::move(array_data)), first_entry(first) {
  if (header.is_structured) columns = std::make_unique<Columns>();
}
TensorFile::Array::~Array() = default;

// Calls take(records) for all records, in blocks. Requires: CheckRecord is OK.
absl::Status TensorFile::ReadRecords(const Array& array, ArrayData::Use use, TakeRecords take) const {
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<DataCursor> cursor, array.data->Open(use));
  const uint64_t record_bytes = array.header.record_bytes;
  if (array.header.data_bytes > 0) {
    const uint64_t block_bytes = std::max<uint64_t>(kBlockBytes / record_bytes, 1) * record_bytes;
    PieceBuffer block(array.header.data_bytes, block_bytes);
    for (uint64_t at = 0; at < array.header.data_bytes;) {
      const size_t bytes = std::min<uint64_t>(block.size(), array.header.data_bytes - at);
      CASK_RETURN_IF_ERROR(cursor->ReadAt(at, absl::MakeSpan(block.data(), bytes)));
      take(block.data(), bytes / record_bytes);
      at += bytes;
    }
  }
  return cursor->Finish();
}

// The memory for fields that are read ahead, which is part of the budget of the list.
uint64_t TensorFile::ReservedForFields() const {
  constexpr uint64_t kMost = uint64_t{16} << 20;
  return std::min(kMost, LimitOf(options_.limits.max_memory_beyond_input) / 4);
}

// The memory for those of one array. With the part that grows with the file, passes over a stored array are few
// whatever its size.
uint64_t TensorFile::ColumnBudget(const Array& array) const {
  constexpr uint64_t kPartOfFile = 8;
  return ReservedForFields() + array.data->stored_bytes() / kPartOfFile;
}

// `first`, and fields that are probably read next, as many as memory allows.
std::vector<TensorFile::Source> TensorFile::FieldsToRead(const Source& first) const {
  const Array& array = *first.array;
  Columns& columns = *array.columns;
  const std::vector<NpyLeaf>& leaves = array.header.leaves;
  std::vector<Source> fields = {first};
  if (!columns.was_read && array.header.data_bytes > kSmallArrayBytes) return fields;
  const auto before = [&](uint32_t a, uint32_t b) {
    return entries_[array.first_entry + a].field() < entries_[array.first_entry + b].field();
  };
  if (columns.order.empty()) {
    columns.order.resize(leaves.size());
    for (size_t i = 0; i < leaves.size(); ++i) columns.order[i] = static_cast<uint32_t>(i);
    std::sort(columns.order.begin(), columns.order.end(), before);
  }
  const auto needs = [](const Source& field) {
    return kColumnBytes + DecodedBytes(field, LimitOf(field.entry->shape.num_elements()));
  };
  const uint64_t budget = ColumnBudget(array);
  uint64_t used = needs(first);
  const auto leaf = static_cast<uint32_t>(first.leaf - leaves.data());
  for (auto next = std::upper_bound(columns.order.begin(), columns.order.end(), leaf, before);
       next != columns.order.end() && used < budget; ++next) {
    const Source field = SourceOf(array.first_entry + *next);
    if (!field.entry->shares_pass || !Charge(field, LimitOf(field.entry->shape.num_elements())).ok()) continue;
    if (needs(field) > budget - used) break;
    used += needs(field);
    fields.push_back(field);
  }
  return fields;
}

// Reads `fields` of one array, whole, into its columns. Errors: those of all records; a field of its own has a status.
absl::Status TensorFile::ReadColumns(const Array& array, absl::Span<const Source> fields) const {
  std::vector<Column> read;
  read.reserve(fields.size());
  for (const Source& field : fields) {
    DimVector dims = array.header.shape.dims();
    if (array.header.fortran_order) std::reverse(dims.begin(), dims.end());
    dims.insert(dims.end(), field.leaf->dims.begin(), field.leaf->dims.end());
    CASK_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Create(dims));
    CASK_ASSIGN_OR_RETURN(Tensor dense, Tensor::Create(field.entry->dtype, shape, options_.allocator));
    CASK_RETURN_IF_ERROR(dense.EnsureMutable());
    read.push_back({std::move(dense), LeafDecoder(field.leaf, options_.allow_odd_bools), field.leaf, 0, {}});
  }
  std::string fixed;
  CASK_RETURN_IF_ERROR(ReadRecords(array, ArrayData::Use::kWhole, [&](const char* records, size_t num_records) {
    for (Column& column : read) {
      if (!column.status.ok()) continue;
      column.status = column.Take(records, num_records, array.header.record_bytes, &fixed);
    }
  }));
  for (Column& column : read) {
    const size_t leaf = column.leaf - array.header.leaves.data();
    if (column.status.ok()) {
      array.columns->ready.emplace(leaf, std::move(column.dense));
    } else {
      array.columns->ready.emplace(leaf, std::move(column.status));
    }
  }
  return absl::OkStatus();
}

// All elements of a field, in the order of the file. Requires: source.entry->shares_pass.
absl::StatusOr<Tensor> TensorFile::ReadField(const Source& source) const {
  CASK_RETURN_IF_ERROR(Charge(source, LimitOf(source.entry->shape.num_elements())));
  CASK_RETURN_IF_ERROR(CheckRecord(*source.array));
  Columns& columns = *source.array->columns;
  const std::lock_guard<std::mutex> lock(columns.mutex);
  CASK_RETURN_IF_ERROR(columns.damage);
  const size_t leaf = source.leaf - source.array->header.leaves.data();
  auto found = columns.ready.find(leaf);
  if (found == columns.ready.end()) {
    columns.ready.clear();
    const std::vector<Source> fields = FieldsToRead(source);
    columns.was_read = true;
    const absl::Status status = ReadColumns(*source.array, fields);
    if (!status.ok()) {
      if (absl::IsDataLoss(status)) columns.damage = status;  // another pass would find the same
      return status;
    }
    found = columns.ready.find(leaf);
  }
  absl::StatusOr<Tensor> tensor = std::move(found->second);
  columns.ready.erase(found);
  return tensor;
}

// Reads all records of an array of structures once. `statuses` are those of its leaves.
void TensorFile::VerifyFields(const Array& array, absl::Span<absl::Status> statuses) const {
  std::vector<ElementCheck> checks;
  for (size_t i = 0; i < statuses.size(); ++i) {
    const NpyLeaf& leaf = array.header.leaves[i];
    if ((leaf.kind != 'b' && leaf.kind != 'U') || !entries_[array.first_entry + i].readable.ok()) continue;
    ElementCheck check{i, LeafDecoder(&leaf, options_.allow_odd_bools)};
    if (check.decoder.bytes_per_record() > 0) checks.push_back(std::move(check));
  }
  std::string elements;
  std::vector<std::string> strings;
  absl::Status status = CheckRecord(array);
  if (status.ok()) {
    status = ReadRecords(array, ArrayData::Use::kVerify, [&](const char* records, size_t num_records) {
      for (ElementCheck& check : checks) {
        absl::Status& found = statuses[check.index];
        if (!found.ok()) continue;
        const NpyLeaf& leaf = array.header.leaves[check.index];
        elements.resize(num_records * check.decoder.bytes_per_record());
        check.decoder.Take(records, num_records, array.header.record_bytes, elements.data());
        found = check.decoder.Finish(absl::MakeSpan(elements.data(), elements.size()));
        if (found.ok()) found = CheckElements(leaf, elements, check.done, &strings);
        check.done += elements.size() / leaf.item_bytes;
      }
    });
  }
  for (absl::Status& one : statuses) {
    if (one.ok()) one = status;
  }
}

}  // namespace tensorcask::npy
