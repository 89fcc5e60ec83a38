// A folder that names from a stranger cannot leave: what a file calls its side file is opened only beneath the folder
// of that file.
//
//   CASK_ASSIGN_OR_RETURN(const ContainedFolder folder, ContainedFolder::Of("/models/m.onnx", Links::kContained, {}));
//   CASK_ASSIGN_OR_RETURN(auto weights, folder.Open("parts/m.bin"));   // /models/parts/m.bin
//   folder.Open("../secret")                                           // InvalidArgument
//
// The folder is opened once. Names are resolved from there by the system, so that no other process can exchange a
// folder for a link between a check and its use. Only regular files are opened.
//
// Links::kContained is for caches that keep files in one place and their names, as links, in others: the file itself
// may be a link if the link leads to a regular file in or below the folder, or in or below the folder of the file that
// `file` leads to. No folder on the way may be a link.

#ifndef TENSORCASK_SERIALIZE_IO_CONTAINED_FOLDER_H_
#define TENSORCASK_SERIALIZE_IO_CONTAINED_FOLDER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

// The steps of a relative name: "a/./b//../c" -> "a/c". Errors: InvalidArgument, saying what is wrong with the name, if
// it is empty, absolute, too long, has a NUL byte, leaves the folder, or ends as the name of a folder does.
absl::StatusOr<std::string> ContainedName(absl::string_view name);

class ContainedFolder {
 public:
  enum class Links { kContained, kRefused };

  // The folder of `file`. Errors: from errno, naming the folder; Unimplemented where the file system has no handles of
  // folders.
  static absl::StatusOr<ContainedFolder> Of(const std::string& file, Links links, const ReadOptions& options);

  ContainedFolder(ContainedFolder&& other) noexcept;
  ContainedFolder& operator=(ContainedFolder&& other) noexcept;
  ~ContainedFolder();

  // The path that errors and ByteSource::name give to the file: that of the folder, and `name`.
  std::string PathOf(absl::string_view name) const;
  // Errors: InvalidArgument as ContainedName; PermissionDenied for a link that is not followed; FailedPrecondition for
  // anything but a regular file; NotFound if options.source is given; from errno, naming the path.
  absl::StatusOr<std::shared_ptr<const ByteSource>> Open(absl::string_view name) const;

 private:
  ContainedFolder(std::string path, ReadOptions options) : path_(std::move(path)), options_(std::move(options)) {}

  std::string path_;
  ReadOptions options_;
  IoResult folder_ = -1;
  std::vector<IoResult> targets_;  // where a link may lead
};

// The files of a folder, opened as they are read. There may be more of them than a process may open: those that were
// opened last stay open, and the others for as long as they are used. A name means the same file for as long as the
// object lives, so that what is read is never half of one training step and half of another. Safe from several threads.
class ContainedFiles {
 public:
  explicit ContainedFiles(ContainedFolder folder) : folder_(std::move(folder)) {}

  const ContainedFolder& folder() const { return folder_; }

  // Errors: those of ContainedFolder::Open; DataLoss, naming the path, if the name leads to another file than before.
  absl::StatusOr<std::shared_ptr<const ByteSource>> Open(const std::string& name) const;

 private:
  struct File {
    std::weak_ptr<const ByteSource> source;
    FileId id;
    uint64_t size_bytes = 0;
  };

  const ContainedFolder folder_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, File> files_;                        // those that were opened, by name
  mutable std::deque<std::shared_ptr<const ByteSource>> kept_open_;  // the last ones come last
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_CONTAINED_FOLDER_H_
