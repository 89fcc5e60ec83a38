// What an HDF5 file holds: its datasets, by their paths, and the attributes of all objects.

#ifndef TENSORCASK_SERIALIZE_HDF5_INTERNAL_DIRECTORY_H_
#define TENSORCASK_SERIALIZE_HDF5_INTERNAL_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/hdf5/internal/storage.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::hdf5 {

struct Dataset {
  std::string name;      // the path from the root group, "layers/dense/vars/0"
  uint64_t address = 0;  // where its object header is: two names of one dataset have the same
  DType dtype = DType::kInvalid;
  TensorShape shape;
  bool big_endian = false;
  Storage storage;
  // Not OK: the dataset is only listed. DataLoss: it breaks a rule; Unimplemented: a form that is not read, also of
  // links that are not followed; ResourceExhausted: more of it was not written than a limit allows.
  absl::Status status;
};

struct Directory {
  std::vector<Dataset> datasets;  // sorted by name
  // A map: the attributes of the root group by their names, and those of another object, if it has some, as a map under
  // its path with a '/' in front.
  ValueTree values;
  std::vector<std::string> notes;
};

// `opaque`: the dtype of opaque elements of its size; kInvalid: none. Errors, which do not name the file: those of
// File::Open; DataLoss if the root group cannot be read; ResourceExhausted past a limit; those of the source.
absl::StatusOr<Directory> ReadDirectory(std::shared_ptr<const ByteSource> source, DType opaque,
                                        const DecodeLimits& limits, ListingBudget* listing);

}  // namespace tensorcask::hdf5

#endif  // TENSORCASK_SERIALIZE_HDF5_INTERNAL_DIRECTORY_H_
