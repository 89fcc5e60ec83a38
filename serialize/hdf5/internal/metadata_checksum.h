// The checksum of metadata of HDF5 from superblock 2 on: hashlittle of lookup3.c by Bob Jenkins, which is in the public
// domain, with the initial value 0.

#ifndef TENSORCASK_SERIALIZE_HDF5_INTERNAL_METADATA_CHECKSUM_H_
#define TENSORCASK_SERIALIZE_HDF5_INTERNAL_METADATA_CHECKSUM_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorcask::hdf5 {

inline constexpr size_t kChecksumBytes = 4;

uint32_t MetadataChecksum(absl::string_view bytes);

// Compares the last four bytes of `bytes` with the checksum of those before. Errors: DataLoss with both numbers.
absl::Status CheckMetadataChecksum(absl::string_view bytes);

}  // namespace tensorcask::hdf5

#endif  // TENSORCASK_SERIALIZE_HDF5_INTERNAL_METADATA_CHECKSUM_H_
