// Options and results of NpyReader (npy_reader.h) and NpzReader (npz_reader.h).
//
//   NpyReaderOptions options;
//   options.dtype_of_opaque_elements = DType::kFloat8E4m3fn;   // V1 in the file
//   CASK_ASSIGN_OR_RETURN(NpyReader reader, NpyReader::Open("/data/weights.npy", options));

#ifndef TENSORCASK_SERIALIZE_NPY_NPY_TYPES_H_
#define TENSORCASK_SERIALIZE_NPY_NPY_TYPES_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

// The attribute of TensorMetadata that keeps the type of an array of datetime64 or timedelta64 ("<M8[D]"), whose
// elements are int64, or of str ("<U5"), whose elements are strings. NpyWriter and NpzWriter write a tensor that has
// this attribute as such an array; strings that are not UTF-8 as bytes.
inline constexpr char kNpyDescrAttribute[] = "npy.descr";

struct NpyReaderOptions {
  ReadOptions read;  // file system, strategy, threads
  DecodeLimits limits;
  RefPtr<Allocator> allocator = CpuAllocator::Default();  // must give memory of the host

  // npz: the first Read, ReadView, ReadInto or Map of a tensor compares the CRC-32 of its member with the elements.
  // false: only Verify and VerifyAll do. (Files of one array have no checksum.)
  bool verify_checksums = true;

  // The dtype of elements that the file calls opaque (V1, V2, ...). NumPy stores bfloat16, float8 and int4 of ml_dtypes
  // as opaque elements, and the file does not say which dtype they had. The option applies to elements of its own size.
  // kInvalid: V2 is bfloat16, the only dtype of ml_dtypes with two bytes; for all other sizes Read fails.
  DType dtype_of_opaque_elements = DType::kInvalid;

  // Bytes after the array, or the last array, are ignored, as NumPy ignores them. false: they are an error.
  bool allow_trailing_bytes = false;

  // A bool whose byte is neither 0 nor 1 is read as true, as NumPy does. false: it is an error.
  bool allow_odd_bools = false;

  // Arrays of Python objects are never read. false: Open refuses a file that has one. true: Open lists them, as entries
  // that are not readable, beside the other tensors.
  bool list_object_arrays = false;

  // What is wrong with one member of an npz file (a damaged header, a cut array, a later version of the format), or
  // with an array after the first one of an npy file. false: Open refuses the file. true: Open lists the member as an
  // entry that is not readable, beside the others.
  bool list_damaged_members = false;

  // For salvage of an npz file whose directory is missing or damaged, as a download that stopped leaves it. true: Open
  // finds the members by the headers before their data, and lists damaged ones; VerifyAll reports what is wrong. If
  // members have the same name, the first counts. false: Open refuses the file.
  bool recover_members = false;

  // Open refuses a longer header. NumPy's own limit is 10000.
  uint32_t max_header_bytes = uint32_t{1} << 20;

  // The budget for the memory of the list of tensors. Several files may share one; null: this file gets its own.
  std::shared_ptr<ListingBudget> listing = nullptr;
};

// One tensor of a file: an array, or one field of an array of structures.
struct NpyEntry {
  // npy: "" for the array. npz: the name of the member without ".npy". A field of a structure: "a.x" for field x of
  // array a, "x" in a file of one array; a nested field has one more ".name".
  std::string name;
  std::string member() const;       // npz: the name of the member in the archive
  absl::string_view field() const;  // "" if the array has no fields

  DType dtype = DType::kInvalid;  // that of the tensor read; kInvalid: unknown (see `readable`)
  // The shape of the tensor read. The dims of a field of several elements follow those of the array.
  TensorShape shape;
  // OK, or the error that every Read of this tensor gives: long double, opaque elements of unknown dtype, objects; a
  // damaged member, whose dtype and shape are not known.
  absl::Status readable;
  TensorMetadata metadata;  // empty except for kNpyDescrAttribute

  std::string descr;           // the type in the file: "<f4", "|S5"
  bool fortran_order = false;  // the first axis varies fastest in the file
  uint64_t data_bytes = 0;     // the size of the elements in the file, before compression

  bool deflated = false;      // compressed (npz)
  uint64_t stored_bytes = 0;  // the size in the file: data_bytes; if deflated, that of the whole member
  // Where the elements begin in the file; for a field, where the first structure begins; 0 if deflated.
  uint64_t data_offset = 0;

  // A field that Read takes from one pass over the structures, together with fields that are read after it.
  bool shares_pass = false;

  // For field() and member(): where the field begins in `name` (npos: the array has no fields), and what follows the
  // name of the array in the name of the member.
  size_t field_at = std::string::npos;
  absl::string_view member_ending;
};

struct NpyTensor {
  std::string name;
  Tensor tensor;
};

// One thing found wrong by VerifyAll.
struct NpyDamage {
  std::string tensor;     // the name of its entry
  absl::Status status;    // a sentence that names file, member and what is wrong
  bool is_tensor = true;  // false: a member that is not an array, or the directory, is damaged; `tensor` is ""
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_NPY_NPY_TYPES_H_
