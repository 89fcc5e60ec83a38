// Reads HDF5 files, as Keras writes them and h5py by default: datasets of numbers as tensors, attributes as values.
// FORMAT.md says which part of the format is read.
//
//   CASK_ASSIGN_OR_RETURN(const Hdf5Reader reader, Hdf5Reader::Open("model.weights.h5"));
//   for (const Hdf5Entry& entry : reader.entries()) ...                  // "layers/dense/vars/0", float32 [144,10]
//   CASK_ASSIGN_OR_RETURN(Tensor kernel, reader.Read("layers/dense/vars/0"));
//   CASK_ASSIGN_OR_RETURN(Value config, FindValue(reader.values(), "model_config"));   // value_path.h
//
// Nothing outside of the file is opened: external links, external storage and virtual datasets are listed and not read,
// and so are filters other than gzip and shuffle. A .keras file is a zip archive with such a file in it: keras_file.h.
//
// Open reads the metadata of all objects. HDF5 has no checksums of elements, apart from what gzip adds. Const methods
// are thread-safe.

#ifndef TENSORCASK_SERIALIZE_HDF5_HDF5_READER_H_
#define TENSORCASK_SERIALIZE_HDF5_HDF5_READER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

namespace hdf5 {
class ReaderImpl;
}  // namespace hdf5

struct Hdf5ReaderOptions {
  ReadOptions read;
  DecodeLimits limits;
  RefPtr<Allocator> allocator = CpuAllocator::Default();  // must give memory of the host
  // The dtype of elements that the file calls opaque, if they have its size: Keras stores bfloat16 so. Datasets with an
  // attribute dtype = "bfloat16" need no option. kInvalid: others are only listed.
  DType dtype_of_opaque_elements = DType::kInvalid;
  // The budget for the memory of the values and of the list of tensors. Several readers may share one; null: this
  // reader gets its own.
  std::shared_ptr<ListingBudget> listing;
};

struct Hdf5Entry {
  std::string name;               // the path from the root group, without the first '/'
  DType dtype = DType::kInvalid;  // kInvalid: it is not known, or this library has no such dtype
  TensorShape shape;
  bool is_chunked = false;
  bool is_filtered = false;        // its chunks are compressed or shuffled
  uint64_t stored_bytes = 0;       // the size of the elements in the file
  std::optional<uint64_t> offset;  // where the elements begin, if they are in one piece
  uint64_t storage_id = 0;         // equal for two names of one dataset
  // Not OK: it is only listed. Unimplemented: a form that is not read, or a link that is not followed.
  absl::Status read_status;
};

class Hdf5Reader {
 public:
  // Errors, naming the file: NotFound; DataLoss if the file is not HDF5, is cut short, or has no root group;
  // Unimplemented for a newer version; ResourceExhausted past a limit.
  static absl::StatusOr<Hdf5Reader> Open(const std::string& path, const Hdf5ReaderOptions& options = {});
  // Opens a byte source: a file that is already open, a part of one (MakeWindow), or bytes in memory. Errors: those of
  // Open.
  static absl::StatusOr<Hdf5Reader> OpenSource(std::shared_ptr<const ByteSource> source,
                                               const Hdf5ReaderOptions& options = {});
  // True if a file that begins with these bytes may be HDF5. A user block of up to 2048 bytes in front of it is skipped
  // if the bytes include it.
  static bool LooksLikeHdf5(absl::string_view first_bytes);

  Hdf5Reader(Hdf5Reader&&) noexcept;
  Hdf5Reader& operator=(Hdf5Reader&&) noexcept;
  ~Hdf5Reader();

  const std::string& path() const;
  std::shared_ptr<const ByteSource> source() const;
  const std::vector<Hdf5Entry>& entries() const;             // sorted by name
  const Hdf5Entry* FindEntry(absl::string_view name) const;  // null if there is none; valid as long as this reader
  // The attributes: a map with those of the root group by name, and for each other object that has some a map under its
  // path with a '/' in front. Valid as long as this reader.
  Value values() const { return value_tree().root(); }
  const ValueTree& value_tree() const;
  const std::vector<std::string>& notes() const;  // sentences about what is not read

  // The tensor, row-major, in a new buffer. Elements that were never written are the fill value of the dataset.
  // Errors, which name file and tensor: NotFound; Hdf5Entry::read_status; DataLoss; ResourceExhausted past
  // max_file_decoded_bytes or if memory cannot be allocated; from errno.
  absl::StatusOr<Tensor> Read(absl::string_view name) const;
  // Reads into *out, which must have that dtype and shape (else InvalidArgument). It may have any strides, on the host
  // or a device.
  absl::Status ReadInto(absl::string_view name, TensorView* out) const;
  // A part of a tensor. Reads only the bytes, or the chunks, that hold it.
  // Errors: also OutOfRange if the slice is outside the tensor; InvalidArgument if it has another rank.
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const;
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const;
  // The tensor in read-only memory that is mapped from the file; a copy for chunks, and where elements are not aligned
  // or big-endian. The file must not change while it is mapped (ReadStrategy::kMap).
  absl::StatusOr<Tensor> Map(absl::string_view name) const;

 private:
  explicit Hdf5Reader(std::unique_ptr<const hdf5::ReaderImpl> impl);

  std::unique_ptr<const hdf5::ReaderImpl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_HDF5_HDF5_READER_H_
