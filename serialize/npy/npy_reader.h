// Reads .npy files: one array, or several one after the other, as NumPy's np.save writes them. Versions 1.0, 2.0
// and 3.0 of the format.
//
//   CASK_ASSIGN_OR_RETURN(NpyReader reader, NpyReader::Open("/data/weights.npy"));
//   CASK_ASSIGN_OR_RETURN(Tensor w, reader.Read());
//   CASK_ASSIGN_OR_RETURN(Tensor rows, reader.ReadSlice("", *TensorSlice::Parse("1000,10:-")));
//
// An array of plain elements is one tensor, whose name is "". An array of structures is one tensor for each field, with
// the name of the field. If np.save was called several times with one open file, the arrays are "arr_0", "arr_1" and so
// on, as np.savez names arrays without names (with fields: "arr_0.x"). Elements of either byte order and arrays of
// either order of axes are read. Fixed strings become strings: "S5" without the NUL bytes at the end, "U5" as UTF-8 (a
// lone surrogate as the three bytes that generalised UTF-8 has for it). Times (datetime64, timedelta64) become int64.
// kNpyDescrAttribute keeps "U5" and the unit of times. Arrays of Python objects are refused: their bytes are a program
// (a pickle), and no option runs it.
//
// Open reads the header with a parser of its own for the few literals that a header may have; nothing is evaluated. It
// compares the shape with the size of the file before anything is allocated. The format has no checksum, so Verify
// checks structure alone. All methods are const and thread-safe.

#ifndef TENSORCASK_SERIALIZE_NPY_NPY_READER_H_
#define TENSORCASK_SERIALIZE_NPY_NPY_READER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

namespace npy {
class TensorFile;
}

// True if a file that begins with `start` can be an npy file: the first six bytes decide.
bool IsNpy(absl::string_view start);

class NpyReader {
 public:
  // Errors, naming the file: NotFound and others from errno; DataLoss if the file is not an npy file or is damaged;
  // Unimplemented for arrays of objects and for later versions; ResourceExhausted past a limit.
  static absl::StatusOr<NpyReader> Open(const std::string& path, const NpyReaderOptions& options = {});
  // Opens a byte source, such as bytes in memory (MakeMemorySource); options.read is not used. Errors: the same.
  static absl::StatusOr<NpyReader> Open(std::shared_ptr<const ByteSource> source, const NpyReaderOptions& options = {});

  NpyReader(NpyReader&&) noexcept;
  NpyReader& operator=(NpyReader&&) noexcept;
  ~NpyReader();

  const std::string& path() const;
  std::shared_ptr<const ByteSource> source() const;  // for a plan of reads (serialize/io/read_plan.h)
  FileRange RangeOf(absl::string_view name) const;   // where source() has the tensor; empty if there is no such tensor

  // One entry for each array, or for each field, in the order of the file.
  const std::vector<NpyEntry>& entries() const;
  // Sentences about what allow_trailing_bytes accepted, at most 100.
  const std::vector<std::string>& notes() const;
  // Errors: NotFound, naming tensor and file.
  absl::StatusOr<NpyEntry> Find(absl::string_view name) const;

  // The tensor, row-major and little-endian, in a new buffer.
  // Errors, naming file and tensor: NotFound; DataLoss; Unimplemented for the reasons that NpyEntry::readable lists;
  // ResourceExhausted past a limit or without memory.
  absl::StatusOr<Tensor> Read(absl::string_view name = "") const;
  // The same, in the order that the file has: an array in Fortran order gets the strides of its order, and is not
  // transposed.
  absl::StatusOr<TensorView> ReadView(absl::string_view name = "") const;

  // Reads into *out, which must have the dtype and shape of the entry (else InvalidArgument, naming both) and may have
  // any strides. On error the elements of *out are unspecified.
  absl::Status ReadInto(absl::string_view name, Tensor* out) const;
  absl::Status ReadInto(absl::string_view name, TensorView* out) const;

  // A part of a tensor. Reads only the bytes that hold the part (for a field: the structures that contain it).
  // Errors: those of Read; OutOfRange if the slice is outside the tensor; InvalidArgument if it has another rank.
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const;
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const;

  // All tensors for which `wanted` returns true (null: all tensors), in the order of entries(). Tensors that are not
  // readable are an error unless `wanted` leaves them out.
  // Errors: those of Read; ResourceExhausted if they need more than max_file_decoded_bytes together, before anything is
  // read.
  absl::StatusOr<std::vector<NpyTensor>> ReadAll(int num_threads = 1,
                                                 const std::function<bool(const NpyEntry&)>& wanted = nullptr) const;

  // The tensor in read-only memory that is mapped from the file, with the strides of the file; the view keeps the
  // mapping alive. Map copies instead, as ReadView does, where the bytes in the file are not the elements in memory:
  // big-endian or misaligned elements, strings. The bytes of bools are checked. The file must not change while it is
  // mapped (ReadStrategy::kMap). Writing to the view copies it first.
  absl::StatusOr<TensorView> Map(absl::string_view name = "") const;

  // Reads all elements of one tensor and checks all that can be wrong with them (bools, code points). Errors: those of
  // Read.
  absl::Status Verify(absl::string_view name = "") const;
  // The same for all tensors; calls report(damage) for each that is wrong. Errors: only what prevents it from checking.
  absl::Status VerifyAll(absl::FunctionRef<void(const NpyDamage&)> report) const;

 private:
  explicit NpyReader(std::unique_ptr<const npy::TensorFile> file);

  std::unique_ptr<const npy::TensorFile> file_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_NPY_NPY_READER_H_
