// The tensors of one npy or npz file: what NpyReader and NpzReader have in common, without knowing zip. Internal.
//
//   auto file = std::make_unique<TensorFile>(source, options);
//   CASK_RETURN_IF_ERROR(file->AddArray(key, member, header, std::make_unique<StoredData>(...)));
//   file->Read("dense/kernel");
//
// Methods mean what npz_reader.h says of those of NpzReader. All const methods are thread-safe.

#ifndef TENSORCASK_SERIALIZE_NPY_INTERNAL_TENSOR_FILE_H_
#define TENSORCASK_SERIALIZE_NPY_INTERNAL_TENSOR_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/npy/internal/array_data.h"
#include "tensorcask/serialize/npy/internal/element_reader.h"
#include "tensorcask/serialize/npy/internal/npy_header.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::npy {

// Errors: InvalidArgument for options out of range.
absl::Status CheckReaderOptions(const NpyReaderOptions& options);

class TensorFile {
 public:
  TensorFile(std::shared_ptr<const ByteSource> source, NpyReaderOptions options);

  const ByteSource& source() const { return *source_; }
  const std::shared_ptr<const ByteSource>& shared_source() const { return source_; }
  const NpyReaderOptions& options() const { return options_; }

  // What is read of the source for a tensor; empty if there is no such tensor, or it cannot be read.
  FileRange RangeOf(absl::string_view name) const;

  void Reserve(size_t num_arrays) { entries_.reserve(num_arrays); }
  // Adds the tensors of one array, which is the member `key` + `member_ending`. `available_bytes` lie after its
  // header; `index_bytes` of the file describe it. Errors do not name the file: DataLoss if the data is short or long,
  // or a name is taken; Unimplemented for objects; ResourceExhausted past a limit. Requires: `member_ending` is a
  // literal.
  absl::Status AddArray(absl::string_view key, absl::string_view member_ending, NpyHeader header,
                        std::unique_ptr<ArrayData> data, uint64_t available_bytes, uint64_t index_bytes);
  // Lists a member whose array cannot be read for the reason `status`. `data` is all of it, for VerifyAll; null: it
  // cannot be read either. Errors: those of AddArray.
  absl::Status AddUnreadable(absl::string_view key, absl::string_view member_ending, std::unique_ptr<ArrayData> data,
                             uint64_t stored_bytes, const absl::Status& status);
  // A member that is not an array; `data` is all of it.
  void AddOther(absl::string_view member, std::unique_ptr<ArrayData> data, uint64_t size_bytes);
  // Damage outside of the members, for VerifyAll. `status` names the file.
  void AddDamage(absl::Status status) { damages_.push_back(std::move(status)); }

  const std::vector<NpyEntry>& entries() const { return entries_; }
  const std::vector<std::string>& other_members() const { return other_members_; }
  const std::vector<std::string>& notes() const { return notes_; }
  absl::StatusOr<NpyEntry> Find(absl::string_view name) const;
  absl::StatusOr<Tensor> Read(absl::string_view name) const;
  absl::StatusOr<TensorView> ReadView(absl::string_view name) const;
  absl::Status ReadInto(absl::string_view name, TensorView* out) const;
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice, bool verify_whole) const;
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out,
                             bool verify_whole) const;
  absl::StatusOr<std::vector<NpyTensor>> ReadAll(int num_threads,
                                                 const std::function<bool(const NpyEntry&)>& wanted) const;
  absl::StatusOr<TensorView> Map(absl::string_view name) const;
  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(absl::string_view name) const;
  absl::Status Verify(absl::string_view name) const;
  absl::Status VerifyAll(absl::FunctionRef<void(const NpyDamage&)> report) const;

 private:
  struct Columns;  // in tensor_file_fields.cc
  struct Array {
    Array(NpyHeader header, std::unique_ptr<ArrayData> data, size_t first_entry);
    ~Array();

    NpyHeader header;                  // without the names and types of its leaves, which the entries have
    std::unique_ptr<ArrayData> data;   // null: of a member that is only listed
    size_t first_entry;                // those of its leaves follow one another
    std::unique_ptr<Columns> columns;  // null if the array has no fields
  };
  // One tensor: an entry and where it comes from.
  struct Source {
    const NpyEntry* entry;
    const Array* array;
    const NpyLeaf* leaf;
  };
  // Names are kept in the entries alone: the table has their numbers.
  struct NameHash {
    using is_transparent = void;
    const std::vector<NpyEntry>* entries;
    size_t operator()(absl::string_view name) const { return absl::HashOf(name); }
    size_t operator()(size_t index) const { return absl::HashOf(absl::string_view((*entries)[index].name)); }
  };
  struct NameEqual {
    using is_transparent = void;
    const std::vector<NpyEntry>* entries;
    absl::string_view Name(absl::string_view name) const { return name; }
    absl::string_view Name(size_t index) const { return (*entries)[index].name; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return Name(a) == Name(b);
    }
  };
  class Stream;  // in tensor_stream.cc
  struct Other {
    std::unique_ptr<ArrayData> data;
    uint64_t size_bytes;
  };

  absl::StatusOr<Source> Lookup(absl::string_view name) const;
  Source SourceOf(size_t index) const;
  absl::Status About(const absl::Status& status, const NpyEntry& entry) const;

  absl::StatusOr<NpyEntry> MakeEntry(absl::string_view key, absl::string_view member_ending, const Array& array,
                                     const NpyLeaf& leaf) const;
  static uint64_t DecodedBytes(const Source& source, uint64_t num_elements);
  absl::Status Charge(const Source& source, uint64_t num_elements) const;
  absl::Status CheckRecord(const Array& array) const;

  absl::StatusOr<TensorView> ReadPart(const Source& source, const TensorSlice& slice) const;
  absl::StatusOr<TensorView> ReadBox(const Source& source, const Box& box) const;
  absl::Status ReadPartInto(const Source& source, const TensorSlice& slice, TensorView* out) const;
  absl::Status FillElements(const Source& source, ElementReader* elements, Tensor* dense) const;
  absl::StatusOr<TensorView> MapView(const Source& source) const;
  absl::Status VerifyData(const ArrayData& data, uint64_t size_bytes) const;
  // Compares the checksum of all of the array, unless it was done before.
  absl::Status VerifyOnce(const Source& source) const;
  absl::Status VerifyElements(const Source& source) const;

  // In tensor_file_fields.cc: structures, whose records are read once for many fields.
  using TakeRecords = absl::FunctionRef<void(const char* records, size_t num_records)>;
  absl::Status ReadRecords(const Array& array, ArrayData::Use use, TakeRecords take) const;
  uint64_t ReservedForFields() const;
  uint64_t ColumnBudget(const Array& array) const;
  std::vector<Source> FieldsToRead(const Source& first) const;
  absl::Status ReadColumns(const Array& array, absl::Span<const Source> fields) const;
  absl::StatusOr<Tensor> ReadField(const Source& source) const;
  void VerifyFields(const Array& array, absl::Span<absl::Status> statuses) const;
  absl::StatusOr<Tensor> DenseTensor(const TensorView& view) const;

  std::shared_ptr<const ByteSource> source_;
  NpyReaderOptions options_;
  bool has_fields_ = false;
  std::vector<std::unique_ptr<Array>> arrays_;
  std::vector<NpyEntry> entries_;
  std::vector<uint32_t> array_of_;  // the array of each entry
  absl::flat_hash_set<size_t, NameHash, NameEqual> by_name_;
  std::vector<std::string> other_members_;
  std::vector<Other> others_;
  std::vector<absl::Status> damages_;
  std::vector<std::string> notes_;
};

}  // namespace tensorcask::npy

#endif  // TENSORCASK_SERIALIZE_NPY_INTERNAL_TENSOR_FILE_H_
