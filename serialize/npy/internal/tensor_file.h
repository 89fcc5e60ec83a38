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
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/npy/internal/array_data.h"
#include "tensorcask/serialize/npy/internal/element_reader.h"
#include "tensorcask/serialize/npy/internal/npy_header.h"
#include "tensorcask/serialize/npy/npy_stream.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::npy {

// Errors: InvalidArgument for options out of range.
absl::Status CheckReaderOptions(const NpyReaderOptions& options);

class TensorFile {
 public:
  TensorFile(std::shared_ptr<const ByteSource> source, NpyReaderOptions options)
      : source_(std::move(source)), options_(std::move(options)) {}

  const ByteSource& source() const { return *source_; }
  const NpyReaderOptions& options() const { return options_; }

  // Adds the tensors of one array. `available_bytes` lie behind its header. Errors do not name the file: DataLoss if
  // the data is short or long, or a name is taken; Unimplemented for objects; ResourceExhausted past a limit.
  absl::Status AddArray(absl::string_view key, absl::string_view member, NpyHeader header,
                        std::unique_ptr<ArrayData> data, uint64_t available_bytes);
  // A member that is no array; `data` is all of it.
  void AddOther(absl::string_view member, std::unique_ptr<ArrayData> data, uint64_t size_bytes);

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
  absl::StatusOr<std::unique_ptr<NpyStream>> OpenStream(absl::string_view name) const;
  absl::Status Verify(absl::string_view name) const;
  absl::Status VerifyAll(absl::FunctionRef<void(const NpyDamage&)> report) const;

 private:
  struct Array {
    NpyHeader header;
    std::unique_ptr<ArrayData> data;
  };
  // One tensor: an entry and where it comes from.
  struct Source {
    const NpyEntry* entry;
    const Array* array;
    const NpyLeaf* leaf;
  };
  class Stream;  // in tensor_stream.cc
  struct Other {
    std::unique_ptr<ArrayData> data;
    uint64_t size_bytes;
  };

  absl::StatusOr<Source> Lookup(absl::string_view name) const;
  Source SourceOf(size_t index) const;
  absl::Status About(const absl::Status& status, const NpyEntry& entry) const;

  absl::StatusOr<NpyEntry> MakeEntry(absl::string_view key, absl::string_view member, const Array& array,
                                     const NpyLeaf& leaf) const;
  static uint64_t DecodedBytes(const Source& source, uint64_t num_elements);
  absl::Status Charge(const Source& source, uint64_t num_elements) const;

  absl::StatusOr<TensorView> ReadPart(const Source& source, const TensorSlice& slice) const;
  absl::StatusOr<TensorView> ReadBox(const Source& source, const Box& box) const;
  absl::Status ReadPartInto(const Source& source, const TensorSlice& slice, TensorView* out) const;
  absl::Status FillElements(const Source& source, ElementReader* elements, Tensor* dense) const;
  absl::StatusOr<TensorView> MapView(const Source& source) const;
  absl::Status VerifyData(const ArrayData& data, uint64_t size_bytes) const;
  absl::Status VerifyElements(const Source& source) const;
  absl::StatusOr<Tensor> DenseTensor(const TensorView& view) const;

  std::shared_ptr<const ByteSource> source_;
  NpyReaderOptions options_;
  std::vector<std::unique_ptr<Array>> arrays_;
  std::vector<NpyEntry> entries_;
  std::vector<std::pair<size_t, size_t>> origins_;  // of each entry: its array and its leaf
  absl::flat_hash_map<std::string, size_t> by_name_;
  std::vector<std::string> other_members_;
  std::vector<Other> others_;
  std::vector<std::string> notes_;
};

}  // namespace tensorcask::npy

#endif  // TENSORCASK_SERIALIZE_NPY_INTERNAL_TENSOR_FILE_H_
