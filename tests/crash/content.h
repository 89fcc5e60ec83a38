// Defines the contents of checkpoints in crash tests, and checks that a checkpoint holds exactly these.

#ifndef TENSORCASK_TESTS_CRASH_CONTENT_H_
#define TENSORCASK_TESTS_CRASH_CONTENT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::testing {

enum class Content {
  kSmall,          // three tensors of some bytes
  kPages,          // one of three pages beside a small one
  kStrings,        // strings, some empty
  kMany,           // 60 tensors, an index of several blocks
  kDirect,         // one of 70 KiB, which goes to the file at once, not gathered
  kSliced,         // one in three slices
  kExtensionOnly,  // one that keeps its strides, with metadata
};
inline constexpr Content kAllContents[] = {Content::kSmall,  Content::kPages,  Content::kStrings,      Content::kMany,
                                           Content::kDirect, Content::kSliced, Content::kExtensionOnly};
absl::string_view ContentName(Content content);

// Every `of`-th tensor, from number `part` on, counted from 0: all by default.
struct Part {
  int part = 0;
  int of = 1;
};

// Adds tensors, dealt out over the shards. Those of two versions have the same names, dtypes, shapes and places, so
// that only their checksums keep them apart.
absl::Status AddContent(Content content, int64_t version, int num_shards, CheckpointWriter* writer, Part part = {});

// Create, AddContent, Finish (in the background, if the options say so).
absl::Status SaveContent(const std::string& prefix, Content content, int64_t version,
                         const CheckpointWriterOptions& options, Part part = {});

// The version that the checkpoint holds, every tensor of which is read and compared, and verified.
// Errors: those of opening it; DataLoss if it mixes versions.
absl::StatusOr<int64_t> VersionOf(const std::string& prefix, Content content, FileSystem* files);

// The same of a part, whose version is known. Errors: DataLoss if it holds anything else.
absl::Status CheckContent(const std::string& prefix, Content content, int64_t version, FileSystem* files, Part part);

// There is no index of that name, which is what `opened`, an answer to opening it, says. (NotFound alone does not tell:
// a data file may be missing.)
bool IsMissing(const absl::Status& opened, const std::string& prefix, FileSystem* files);

// How many files are temporary, by their names, and how many are not.
struct FileCount {
  int temporary = 0;
  int standing = 0;
};
FileCount CountFiles(const std::string& folder, FileSystem* files);

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_CRASH_CONTENT_H_
