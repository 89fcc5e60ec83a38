// A model in several files of one format, with an index that says which file has each tensor.
//
//   ShardedParts parts;
//   parts.index = {{"a", "m-1.bin"}, {"b", "m-2.bin"}};
//   parts.shards = {{"m-1.bin", std::move(first)}, {"m-2.bin", nullptr, absl::DataLossError("m-2.bin: is missing")}};
//   CASK_ASSIGN_OR_RETURN(auto model, MakeShardedReader(std::move(parts), budget));   // has "a" and lists "b"
//
// One bad file hides its own tensors only. A tensor that the index says is in a file that does not have it is listed as
// damaged. A tensor that a file has and the index does not list belongs to the model, unless another file has it; a
// note and VerifyAll say so.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_SHARDED_READER_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_SHARDED_READER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/io/listing_budget.h"

namespace tensorcask::archive {

struct ShardedParts {
  struct Shard {
    std::string name;                        // in the index
    std::unique_ptr<ArchiveReader> reader;   // null: none of its tensors can be read, as `status` says
    absl::Status status = absl::OkStatus();  // names the file
    std::string path = "";
  };

  std::string path;  // that of the index
  absl::string_view format;
  FileMetadata metadata;
  std::map<std::string, std::string> index;  // from tensors to names of shards
  std::vector<Shard> shards;                 // one for each name in the index, sorted by name
  std::vector<std::string> notes;
};

// Errors: ResourceExhausted past the budget; DataLoss if two files have a tensor that the index does not list.
absl::StatusOr<std::unique_ptr<ArchiveReader>> MakeShardedReader(ShardedParts parts, ListingBudget* budget);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_SHARDED_READER_H_
