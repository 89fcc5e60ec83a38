// The type of the elements of a dataset or attribute, as a datatype message describes it.

#ifndef TENSORCASK_SERIALIZE_HDF5_INTERNAL_DATATYPE_H_
#define TENSORCASK_SERIALIZE_HDF5_INTERNAL_DATATYPE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/hdf5/internal/cursor.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::hdf5 {

struct Datatype {
  enum class Kind {
    kNumber,    // `dtype` says which; bools and complex numbers of h5py are numbers, too
    kText,      // text of `size` bytes
    kLongText,  // a reference of `size` bytes to a text elsewhere in the file
    kOpaque,    // bytes without a meaning
    kOther,     // `what` is its name
  };
  Kind kind = Kind::kOther;
  DType dtype = DType::kInvalid;
  bool big_endian = false;
  uint64_t size = 0;  // the size of an element, in bytes
  // For kText: what follows the text. NUL bytes or spaces are not part of it.
  enum class Padding { kNulTerminated = 0, kNul = 1, kSpaces = 2 } padding = Padding::kNulTerminated;
  std::string what;
};

// Reads one datatype, with all those in it, and leaves `in` after it. Errors: DataLoss if it is cut short or breaks a
// rule; Unimplemented if it is nested too deeply.
absl::StatusOr<Datatype> ParseDatatype(Cursor* in);

}  // namespace tensorcask::hdf5

#endif  // TENSORCASK_SERIALIZE_HDF5_INTERNAL_DATATYPE_H_
