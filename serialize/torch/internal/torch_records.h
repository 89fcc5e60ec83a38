// The names of the records of a zip archive of torch.save, after its folder. FORMAT.md section 1.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_TORCH_RECORDS_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_TORCH_RECORDS_H_

#include "absl/strings/string_view.h"

namespace tensorcask::torch {

inline constexpr absl::string_view kPickleRecord = "data.pkl";
inline constexpr absl::string_view kStorageFolder = "data/";
inline constexpr absl::string_view kByteOrderRecord = "byteorder";
inline constexpr absl::string_view kVersionRecord = "version";
// The metadata of this library's writer: a pickled dict of texts.
inline constexpr absl::string_view kMetadataRecord = "extra/tensorcask_metadata.pkl";

// What this library writes.
inline constexpr absl::string_view kWrittenFolder = "archive/";
inline constexpr absl::string_view kWrittenVersion = "3\n";
inline constexpr absl::string_view kLittleEndian = "little";

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_TORCH_RECORDS_H_
