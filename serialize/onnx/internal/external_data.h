// What a TensorProto says about elements in a side file: TensorProto.external_data, entries of text written by a
// stranger. FORMAT.md section 5.
//
//   CASK_ASSIGN_OR_RETURN(const ExternalData data, ParseExternalData({{"location", "m.bin"}, {"offset", "4096"}}));
//
// A pure function: opens nothing. ContainedFolder (serialize/io/contained_folder.h) opens the location.

#ifndef TENSORCASK_SERIALIZE_ONNX_INTERNAL_EXTERNAL_DATA_H_
#define TENSORCASK_SERIALIZE_ONNX_INTERNAL_EXTERNAL_DATA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorcask::onnx {

using ExternalEntry = std::pair<std::string, std::string>;  // key, value

// More entries, and longer keys and values, are not read: there are five keys, and a path has 4095 bytes.
inline constexpr size_t kMaxExternalEntries = 5;
inline constexpr size_t kMaxExternalText = 4096;

struct ExternalData {
  std::string location;            // ContainedName: beneath the folder of the model
  uint64_t offset = 0;             // bytes
  std::optional<uint64_t> length;  // bytes; nullopt: as many as the elements need
  std::string sha1;                // that of the whole side file, 40 lower-case digits; "": not given
};

// The name of the side file that `text` means, without "." and "..". Errors: InvalidArgument for what some program or
// system would take for another place than one beneath the folder of the model.
absl::StatusOr<std::string> ParseLocation(absl::string_view text);

// Errors: InvalidArgument, naming the key; a number is one of decimal digits alone.
absl::StatusOr<ExternalData> ParseExternalData(absl::Span<const ExternalEntry> entries);

}  // namespace tensorcask::onnx

#endif  // TENSORCASK_SERIALIZE_ONNX_INTERNAL_EXTERNAL_DATA_H_
