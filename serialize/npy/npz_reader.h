// Reads .npz files: arrays by name, as np.savez and np.savez_compressed write them. An npz file is a zip archive of npy
// files.
//
//   CASK_ASSIGN_OR_RETURN(NpzReader reader, NpzReader::Open("/data/model.npz"));
//   for (const NpyEntry& entry : reader.entries()) ...
//   CASK_ASSIGN_OR_RETURN(Tensor w, reader.Read("dense/kernel"));
//   CASK_ASSIGN_OR_RETURN(TensorView m, reader.Map("dense/kernel"));   // stored and aligned members: no copy
//
// Arrays are read as npy_reader.h says. The name of a tensor is that of its member without ".npy"; a name is only a key
// and never becomes a path. Members that are not arrays are listed (other_members) and not read. If a member NAME.npy
// of up to 1 MiB does not begin as an array, its CRC-32 decides: if that is right, the member never was an array (macOS
// adds __MACOSX/._NAME.npy); otherwise the member is damaged. Members may be stored or deflated, with or without zip64
// fields and data descriptors (serialize/zip).
//
// Open reads the directory of the archive and the header of each member, and compares them: names, sizes, methods and
// offsets must agree, members must neither overlap nor leave gaps, and no two may have the same name. So several
// readers of one file cannot see different arrays. What a deflated member expands to is bounded by DecodeLimits and by
// the shape in its header.
//
// The CRC-32 of a member is compared the first time a tensor of it is read whole or mapped, and each time a deflated
// member is read (NpyReaderOptions::verify_checksums). Errors of damaged elements are DataLoss, naming file and member.
// All methods are const and thread-safe.

#ifndef TENSORCASK_SERIALIZE_NPY_NPZ_READER_H_
#define TENSORCASK_SERIALIZE_NPY_NPZ_READER_H_

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
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

namespace npy {
class TensorFile;
}

class NpzReader {
 public:
  // Errors, naming file and member: NotFound and others from errno; DataLoss if the file is not a zip archive, is
  // damaged or breaks a rule above; Unimplemented for arrays of objects, for encrypted members and for methods other
  // than stored and deflated; ResourceExhausted past a limit.
  static absl::StatusOr<NpzReader> Open(const std::string& path, const NpyReaderOptions& options = {});
  // Opens a byte source, such as bytes in memory (MakeMemorySource); options.read is not used. Errors: the same.
  static absl::StatusOr<NpzReader> Open(std::shared_ptr<const ByteSource> source, const NpyReaderOptions& options = {});

  NpzReader(NpzReader&&) noexcept;
  NpzReader& operator=(NpzReader&&) noexcept;
  ~NpzReader();

  const std::string& path() const;
  std::shared_ptr<const ByteSource> source() const;  // for a plan of reads (serialize/io/read_plan.h)
  FileRange RangeOf(absl::string_view name) const;   // where source() has the tensor; empty if there is no such tensor

  // All tensors, in the order of the directory of the archive; the fields of an array of structures in their order.
  const std::vector<NpyEntry>& entries() const;
  // Names of the members that are not arrays; folders are left out.
  const std::vector<std::string>& other_members() const;
  // Sentences about what allow_trailing_bytes accepted, at most 100.
  const std::vector<std::string>& notes() const;
  // Errors: NotFound, naming tensor and file.
  absl::StatusOr<NpyEntry> Find(absl::string_view name) const;

  // The tensor, row-major and little-endian, in a new buffer.
  // Errors, naming file and tensor: NotFound; DataLoss, also for a wrong CRC-32; Unimplemented for the reasons that
  // NpyEntry::readable lists; ResourceExhausted past a limit or without memory.
  absl::StatusOr<Tensor> Read(absl::string_view name) const;
  // The same, in the order that the file has: an array in Fortran order gets the strides of its order, and is not
  // transposed.
  absl::StatusOr<TensorView> ReadView(absl::string_view name) const;

  // Reads into *out, which must have the dtype and shape of the entry (else InvalidArgument, naming both) and may have
  // any strides. On error the elements of *out are unspecified.
  absl::Status ReadInto(absl::string_view name, Tensor* out) const;
  absl::Status ReadInto(absl::string_view name, TensorView* out) const;

  // A part of a tensor. From a stored member it reads only the bytes that hold the part, and does not verify them,
  // since the checksum covers the whole member. With `verify_whole` it first verifies the whole member, unless that was
  // done before. A deflated member is inflated from its start, and verified.
  // Errors: those of Read; OutOfRange if the slice is outside the tensor; InvalidArgument if it has another rank.
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice, bool verify_whole = false) const;
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out,
                             bool verify_whole = false) const;

  // All tensors for which `wanted` returns true (null: all tensors), in the order of entries(), read on `num_threads`
  // threads. Tensors that are not readable are an error unless `wanted` leaves them out.
  // Errors: those of Read, for the first tensor that fails; ResourceExhausted if they need more than
  // max_file_decoded_bytes together, before anything is read.
  absl::StatusOr<std::vector<NpyTensor>> ReadAll(int num_threads = 1,
                                                 const std::function<bool(const NpyEntry&)>& wanted = nullptr) const;

  // The tensor in read-only memory that is mapped from the file, with the strides of the file; the view keeps the
  // mapping alive. Map copies instead, as ReadView does, where the bytes in the file are not the elements in memory:
  // deflated members, big-endian or misaligned elements (NpzWriter aligns them, NumPy does not), strings. The first Map
  // of a member verifies its checksum, which reads all of it. The file must not change while it is mapped
  // (ReadStrategy::kMap). Writing to the view copies it first.
  absl::StatusOr<TensorView> Map(absl::string_view name) const;

  // The elements of one tensor from front to back, in bounded memory, verified at the end
  // (serialize/io/element_stream.h). The reader must outlive the stream. Errors: those of Read; Unimplemented for
  // strings, fields of structures and arrays of two or more axes in Fortran order.
  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(absl::string_view name) const;

  // Reads all elements of one tensor and checks all that can be wrong with them (CRC-32, bools, code points), whatever
  // the options say. Errors: those of Read.
  absl::Status Verify(absl::string_view name) const;
  // The same for all tensors, and the CRC-32 of all other members; calls report(damage) for each that is wrong.
  // Errors: only what prevents it from checking.
  absl::Status VerifyAll(absl::FunctionRef<void(const NpyDamage&)> report) const;

 private:
  explicit NpzReader(std::unique_ptr<const npy::TensorFile> file);

  std::unique_ptr<const npy::TensorFile> file_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_NPY_NPZ_READER_H_
