// The header of an npy file as a struct: what lies in the data, and where. Bytes in, struct out; no I/O. Internal.
//
//   CASK_ASSIGN_OR_RETURN(const NpyPrefix prefix, ParseNpyPrefix(first_12_bytes));
//   CASK_ASSIGN_OR_RETURN(const NpyHeader header, ParseNpyHeader(prefix, text));   // prefix.text_bytes of text
//
//   93 'NUMPY' 01 00 76 00   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
//   -> one leaf "" of kind 'f' with 4 bytes, shape [2,3], 24 bytes of data
//
// The text is a literal of Python. The parser knows the few forms that NumPy writes and evaluates nothing: a dict with
// exactly the keys descr, fortran_order and shape; strings; True and False; tuples of decimal numbers (Python 2's 3L,
// too); for structures a list of fields, nested at most kMaxNesting deep. Everything else is an error with the position
// in the text.

#ifndef TENSORCASK_SERIALIZE_NPY_INTERNAL_NPY_HEADER_H_
#define TENSORCASK_SERIALIZE_NPY_INTERNAL_NPY_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::npy {

inline constexpr absl::string_view kMagic("\x93NUMPY", 6);
inline constexpr size_t kMaxPrefixBytes = 12;          // magic, version, length
inline constexpr int kMaxNesting = 16;                 // structures in structures
inline constexpr uint64_t kMaxItemBytes = 0x7fffffff;  // NumPy counts the bytes of an item in an int

struct NpyPrefix {
  int major_version = 0;    // 1, 2 or 3
  size_t prefix_bytes = 0;  // 10 or 12; the text follows
  uint64_t text_bytes = 0;
};

// One kind of element in the data: the whole array, or one field of a structure.
struct NpyLeaf {
  std::string name;   // "" for an array without fields; "a.x" for field x of field a
  std::string descr;  // "<f4", as the file has it
  char kind = 0;      // b i u f c S U V M m O; 'n': the dtype of ml_dtypes that `descr` names
  uint64_t item_bytes = 0;
  bool big_endian = false;
  uint64_t offset = 0;  // in the record
  // The axes of the elements inside one record, outermost first, and the steps between them in bytes.
  std::vector<int64_t> dims;
  std::vector<int64_t> byte_strides;
};

struct NpyHeader {
  bool fortran_order = false;
  bool is_structured = false;
  bool has_objects = false;
  TensorShape shape;          // that of records
  uint64_t record_bytes = 0;  // the size of one element, or of one structure
  uint64_t data_bytes = 0;    // the size of all records
  std::vector<NpyLeaf> leaves;
};

// `start` has the first bytes of the file, kMaxPrefixBytes of them if the file has so many.
// Errors: InvalidArgument if it is not an npy file; Unimplemented for versions after 3.0.
absl::StatusOr<NpyPrefix> ParseNpyPrefix(absl::string_view start);

// Errors: InvalidArgument, with the position in the text; Unimplemented for types that NumPy has and this library does
// not know. Arrays of objects are not an error here: has_objects is set.
absl::StatusOr<NpyHeader> ParseNpyHeader(const NpyPrefix& prefix, absl::string_view text);

}  // namespace tensorcask::npy

#endif  // TENSORCASK_SERIALIZE_NPY_INTERNAL_NPY_HEADER_H_
