// Reads the tensors and values of files that torch.save wrote (.pt, .pth, .bin, .ckpt), without Python and without
// running anything of the file.
//
//   CASK_ASSIGN_OR_RETURN(TorchReader reader, TorchReader::Open("/models/pytorch_model.bin"));
//   CASK_ASSIGN_OR_RETURN(Tensor w, reader.Read("encoder.weight"));
//   CASK_ASSIGN_OR_RETURN(Tensor rows, reader.ReadSlice("embedding", *TensorSlice::Parse("1000,10:-")));
//   const ValueTree values = reader.Values();
//   double lr = FindValue(values.root(), "optimizer.param_groups[0].lr")->float_value();
//
// Such a file has a pickle, which is a program. Open reads it as data: it can make numbers, text, containers and
// tensors, and refuses all else (FORMAT.md). With opaque_objects, names that are not known become opaque values: then
// every file lists its tensors, whatever else its pickle wants.
//
// Tensors have the names of the keys on the way to them, joined with ".": {"model": {"w": t}} has "model.w". Where two
// get one name, both have the exact form, ["a.b"] and ["a"]["b"]. A file whose object is one tensor has no names.
//
// Open reads the directory and the pickle. Tensors are read when a caller asks for them, and the CRC-32 of a record is
// compared the first time that a tensor of it is read or mapped: in the same pass, if the tensor is all of the record.
// Slices are not verified. Tied tensors are listed under each name, and all but one name the other (alias_of).
// Conjugate and negative views are computed when they are read. Sparse tensors, tensors without bytes and dtypes that
// this library does not have are listed, and read_status says why they cannot be read; the parts of sparse tensors are
// tensors below their name.
//
// All methods are const and thread-safe.

#ifndef TENSORCASK_SERIALIZE_TORCH_TORCH_READER_H_
#define TENSORCASK_SERIALIZE_TORCH_TORCH_READER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

namespace torch {
class ReaderImpl;
}

struct TorchReaderOptions {
  ReadOptions read;    // file system, strategy, threads
  bool verify = true;  // CRC-32, where the file has them
  DecodeLimits limits;
  RefPtr<Allocator> allocator = CpuAllocator::Default();  // must give memory of the host
  // Names of classes and functions that are not known become opaque values: the name, and what the pickle gives it.
  // False: such a file is refused, and the error has the name.
  bool opaque_objects = false;
  // Bools of other bytes than 0 and 1 become true. False: they are DataLoss.
  bool lenient = false;
  std::shared_ptr<ListingBudget> listing = nullptr;  // for the memory of lists; null: this file gets its own
};

struct TorchEntry {
  std::string name;
  DType dtype = DType::kInvalid;  // kInvalid: this library has no such dtype
  TensorShape shape;
  // The strides of elements that are stored densely in another order than row-major; else empty.
  std::vector<int64_t> strides;
  std::string encoding;            // "plain", "strided", "quantized", "sparse", "meta", "unknown"
  bool reads_in_blocks = false;    // OpenStream or ReadSlice read one part at a time
  bool has_metadata = false;       // Metadata returns it
  bool has_checksum = false;       // its record has one
  uint64_t stored_bytes = 0;       // the size of its elements in the file; other tensors may share them
  std::optional<uint64_t> offset;  // the first byte in the file; nullopt if the record is compressed
  // The number of the storage with the elements: tensors with the same number share it. nullopt: there is no storage.
  std::optional<uint64_t> storage_id;
  std::string device;        // where the tensor was: "cpu", "cuda:0"
  std::string alias_of;      // not empty: another name of this tensor
  absl::Status read_status;  // not OK: the tensor is only listed, for this reason
};

struct TorchDamage {
  std::string tensor;  // "": the damage is in a record that no tensor uses
  std::string file;
  uint64_t offset = 0;
  absl::Status status;  // a sentence with all of the above
};

class TorchReader {
 public:
  // Errors, naming the file: NotFound; DataLoss if the file is not of torch.save or breaks a rule; Unimplemented for a
  // class or function that is not known, and for values that contain themselves; ResourceExhausted past a limit.
  static absl::StatusOr<TorchReader> Open(const std::string& path, const TorchReaderOptions& options = {});
  // Opens a byte source: a file that is already open, or bytes in memory (MakeMemorySource). Errors: the same.
  static absl::StatusOr<TorchReader> OpenSource(std::shared_ptr<const ByteSource> source,
                                                const TorchReaderOptions& options = {});
  // True if a file that begins with these bytes may be of torch.save: for programs that tell formats apart.
  static bool LooksLikeTorch(absl::string_view first_bytes);

  TorchReader(TorchReader&&) noexcept;
  TorchReader& operator=(TorchReader&&) noexcept;
  ~TorchReader();

  const std::string& path() const;
  std::shared_ptr<const ByteSource> source() const;  // for a plan of reads (serialize/io/read_plan.h)
  bool has_names() const;                            // false: the object of the file is one tensor, whose name is ""
  // Sorted by name.
  const std::vector<TorchEntry>& entries() const;
  const TorchEntry* FindEntry(absl::string_view name) const;  // null if there is none
  // The whole object of the file as a tree, in which a tensor is its number in entries(). Each call makes the tree.
  ValueTree Values() const;
  // The text that TorchWriterOptions::metadata put beside the object; empty in files of other programs.
  const std::map<std::string, std::string>& metadata() const;
  // Sentences about unusual but harmless things: bytes that no tensor uses, opaque classes.
  const std::vector<std::string>& notes() const;

  // What a file that TorchWriter writes with the same tensors, values and metadata would lack, a phrase for each kind:
  // attributes of dicts, attributes of tensors, classes whose values are read as those of a simpler class (frozenset),
  // and records that are not read. For programs that replace the file.
  std::vector<std::string> NotWritten() const;

  // The tensor, row-major, in a new buffer. Errors, which name file and tensor: NotFound; DataLoss; the read_status;
  // ResourceExhausted past max_file_decoded_bytes, or for a tensor of which max_memory_beyond_input bytes repeat others
  // (stride 0).
  absl::StatusOr<Tensor> Read(absl::string_view name) const;
  // The same in the order of the file: with TorchEntry::strides.
  absl::StatusOr<TensorView> ReadView(absl::string_view name) const;
  // Reads into *out, which must have the dtype and shape of the entry (else InvalidArgument) and may have any strides.
  absl::Status ReadInto(absl::string_view name, TensorView* out) const;
  // A part of a tensor. Reads only the bytes that hold it, unless the record is compressed, and does not verify them.
  // Errors: also OutOfRange if the slice is outside the tensor; InvalidArgument if it has another rank.
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const;
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const;
  // The tensor in read-only memory that is mapped from the file, or a copy where the elements are not stored as they
  // are in memory. The file must not change while it is mapped (ReadStrategy::kMap).
  absl::StatusOr<Tensor> Map(absl::string_view name) const;
  // The elements of one tensor from front to back, in bounded memory; null for a tensor whose parts ReadSlice reads.
  // The reader must outlive the stream.
  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(absl::string_view name) const;

  // The metadata of a tensor: requires_grad; scale and zero point of quantized tensors as attributes.
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const;

  // Reads all records, and calls report(damage) for each tensor whose checksum or bools are wrong, for each other
  // record whose checksum is, and for each tensor with indices of a sparse tensor that are outside of its shape or out
  // of order. Errors: only what prevents it from checking.
  absl::Status VerifyAll(absl::FunctionRef<void(const TorchDamage&)> report) const;

 private:
  explicit TorchReader(std::unique_ptr<const torch::ReaderImpl> impl);

  std::unique_ptr<const torch::ReaderImpl> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_TORCH_TORCH_READER_H_
