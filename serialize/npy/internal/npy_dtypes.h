// Which dtype the type codes of npy files are, and back. Internal.
//
//   DTypeOfLeaf(leaf of "<f4", DType::kInvalid)      // float32
//   DescrOf(DType::kBfloat16, format)                // "<V2"

#ifndef TENSORCASK_SERIALIZE_NPY_INTERNAL_NPY_DTYPES_H_
#define TENSORCASK_SERIALIZE_NPY_INTERNAL_NPY_DTYPES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/npy/array_format.h"
#include "tensorcask/serialize/npy/internal/npy_header.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::npy {

// `dtype_of_opaque_elements` is that of NpyReaderOptions.
// Errors: Unimplemented, with the type code, for types that this library does not have, objects among them.
absl::StatusOr<DType> DTypeOfLeaf(const NpyLeaf& leaf, DType dtype_of_opaque_elements);

// True for the type codes of datetime64 and timedelta64: "<M8[D]", "m8". Their elements are int64.
bool IsTimeDescr(absl::string_view descr);

// The type code of a dtype of fixed size. `time_descr` is the value of kNpyDescrAttribute, or "".
// Errors: Unimplemented for dtypes that npy files cannot have; InvalidArgument for a bad `time_descr`.
absl::StatusOr<std::string> DescrOf(DType dtype, const NpyFormat& format, absl::string_view time_descr);

}  // namespace tensorcask::npy

#endif  // TENSORCASK_SERIALIZE_NPY_INTERNAL_NPY_DTYPES_H_
