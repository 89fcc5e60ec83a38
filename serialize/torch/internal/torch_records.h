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

// The promise that each record is where PyTorch's own writer would have put it.
inline constexpr absl::string_view kFormatVersionRecord = ".format_version";

// The records that a file has beside its storages, whichever its object is.
inline constexpr absl::string_view kRecordsOfAnyFile[] = {
    kPickleRecord,   kByteOrderRecord,     kVersionRecord,       ".data/version",
    kMetadataRecord, kFormatVersionRecord, ".storage_alignment", ".data/serialization_id"};

// What this library writes.
inline constexpr absl::string_view kWrittenFolder = "archive/";
inline constexpr absl::string_view kWrittenVersion = "3\n";
inline constexpr absl::string_view kLittleEndian = "little";

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_TORCH_RECORDS_H_
