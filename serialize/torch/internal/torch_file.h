// The containers of PyTorch: a zip archive, or the stream that was written before version 1.6. Both have a pickle, and
// for each storage that the pickle declares a block of bytes.
//
//   CASK_ASSIGN_OR_RETURN(TorchFile file, OpenTorchFile(source, options, &budget));
//   file.parts[0].pickle            // the object that was saved
//   file.parts[0].records[3]        // where the bytes of its storage 3 are
//
// In an archive that TorchScript wrote, the second part has the constants. Its code is never read.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_TORCH_FILE_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_TORCH_FILE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/serialize/zip/zip_member.h"

namespace tensorcask::torch {

// The stream begins with the pickle of this number.
inline constexpr absl::string_view kStreamMagic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e", 15);

struct Record {
  static constexpr size_t kNoMember = ~size_t{0};

  size_t member = kNoMember;  // the number of the member of the archive; kNoMember: in the stream
  uint64_t offset = 0;        // the first byte in the file, unless the member is deflated
  uint64_t size_bytes = 0;
  bool has_checksum = false;  // the CRC-32 of the member
  bool in_line = false;       // in the pickle, as Storage::bytes
  absl::string_view bytes;    // the same
  absl::Status status;        // why it cannot be read
};

struct Part {
  absl::string_view name;                    // what it holds: "" or "constants"
  std::unique_ptr<const std::string> bytes;  // that the pickle refers to
  Pickle pickle;
  std::vector<Record> records;  // by the number of the storage
};

struct TorchFile {
  std::shared_ptr<const ByteSource> source;
  bool is_stream = false;
  bool is_torchscript = false;
  bool big_endian = false;  // elements of storages
  std::string folder;       // of all members, with the slash
  std::vector<ZipMember> members;
  std::vector<Part> parts;
  std::map<std::string, std::string> metadata;  // from the record that TorchWriter has for it
  std::vector<std::string> notes;
};

struct TorchFileOptions {
  DecodeLimits limits;
  bool opaque_objects = false;
};

// Reads the directory and the pickles, and compares the storages that these declare with the bytes that are there.
// Errors, naming the file: DataLoss if a container or a pickle breaks a rule; Unimplemented for a global outside the
// table; ResourceExhausted past a limit; those of the source.
absl::StatusOr<TorchFile> OpenTorchFile(std::shared_ptr<const ByteSource> source, const TorchFileOptions& options,
                                        ListingBudget* budget);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_TORCH_FILE_H_
