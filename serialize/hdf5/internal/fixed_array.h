// Fixed arrays: where the chunks of a dataset are that cannot grow, in files of the newer form.

#ifndef TENSORCASK_SERIALIZE_HDF5_INTERNAL_FIXED_ARRAY_H_
#define TENSORCASK_SERIALIZE_HDF5_INTERNAL_FIXED_ARRAY_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/hdf5/internal/file.h"

namespace tensorcask::hdf5 {

// Calls fn(i, element) for the elements of the array whose header is at `header`, in order; not for those of pages that
// were never written. An element is an address, and with `has_filters` also a size and 4 bytes of flags.
// Errors: those of `fn`; DataLoss if the array breaks a rule; Unimplemented if it has not `count` elements: the dataset
// may grow.
absl::Status ForEachElement(uint64_t header, uint64_t count, bool has_filters, File* file,
                            absl::FunctionRef<absl::Status(uint64_t i, absl::string_view element)> fn);

}  // namespace tensorcask::hdf5

#endif  // TENSORCASK_SERIALIZE_HDF5_INTERNAL_FIXED_ARRAY_H_
