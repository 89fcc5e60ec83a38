// One tensor of an archive as its lists describe it, without the elements.
//
//   for (const ArchiveEntry& entry : archive->entries()) {   // archive_reader.h
//     std::cout << entry.name << " " << DTypeName(entry.dtype) << " " << entry.shape << "\n";
//   }

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_ARCHIVE_ENTRY_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_ARCHIVE_ENTRY_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {

struct ArchiveEntry {
  std::string name;  // any bytes
  DType dtype = DType::kInvalid;
  bool reads_in_blocks = false;  // ArchiveReader::ReadBlocks has one block at a time in memory
  bool has_metadata = false;     // ArchiveReader::Metadata returns it
  bool is_quantized = false;     // the elements are decoded from blocks with fewer bits; `encoding` names their type
  int pieces = 0;                // how many, if the tensor is stored in pieces; else 0
  TensorShape shape;
  std::string encoding;                   // "plain", "sliced", "encoded high delta", ...
  std::vector<int64_t> strides;           // in elements; empty: row-major
  uint64_t stored_bytes = 0;              // the size in the file
  std::optional<uint64_t> decoded_bytes;  // the size of the elements, if they are encoded
  std::optional<int> shard;               // the file that has the elements, if the archive has several
  std::optional<uint64_t> offset;         // the first byte in that file
  // Two entries of one shard with the same number have bytes in common, or at least a storage: names of one tensor,
  // views of one storage. nullopt: the format does not say, or there are no bytes.
  std::optional<uint64_t> storage_id;
  std::string alias_of;  // not empty: this is another name of the tensor `alias_of`
  // Not OK: the tensor is only listed, and every Read of it fails for this reason. Unimplemented: a dtype or form that
  // this version does not know. FailedPrecondition: the file has only parts of it, which ReadSlice returns. DataLoss:
  // its file, member or record is missing or damaged; what is not known of it (dtype, shape) is kInvalid and [].
  absl::Status read_status;
};

// The bytes of the elements in memory, UINT64_MAX if that overflows. For strings: the stored bytes, or the decoded
// bytes with 8 for each length.
uint64_t ElementBytes(const ArchiveEntry& entry);
uint64_t ElementBytes(absl::Span<const ArchiveEntry* const> entries);  // the sum

// The memory that the entry takes in a list, with a copy that a command makes: what a format charges to its
// ListingBudget before it keeps the entry.
uint64_t EntryMemory(const ArchiveEntry& entry);

// The entry of a tensor in memory: what a file with a message of the tensor would list. stored_bytes is 0.
ArchiveEntry DescribeTensor(std::string name, const DecodedTensor& tensor);

// "dir/x.pb" -> "x": the name of a tensor in a file that gives it none.
std::string NameFromPath(const std::string& path);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_ARCHIVE_ENTRY_H_
