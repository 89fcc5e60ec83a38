// The side files of a model: opened when needed, beneath the folder of the model.

#ifndef TENSORCASK_SERIALIZE_ONNX_INTERNAL_SIDE_FILES_H_
#define TENSORCASK_SERIALIZE_ONNX_INTERNAL_SIDE_FILES_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/contained_folder.h"

namespace tensorcask::onnx {

// Open, Sha1Of and notes are safe from several threads.
class SideFiles {
 public:
  // Opens the folder of the model, when a side file is first needed. Its error is that of Open.
  using OpenFolder = std::function<absl::StatusOr<ContainedFolder>()>;

  // `folder`: its path, for the names of files.
  SideFiles(std::string folder, OpenFolder open_folder)
      : folder_path_(std::move(folder)), open_folder_(std::move(open_folder)) {}

  // The number of the file `location`, a ContainedName. Before the first Open.
  size_t Add(const std::string& location);

  const std::vector<std::string>& paths() const { return paths_; }
  // Errors: those of ContainedFolder::Open.
  absl::StatusOr<std::shared_ptr<const ByteSource>> Open(size_t number) const;
  // SHA-1 of the whole file, computed once.
  absl::StatusOr<std::string> Sha1Of(size_t number) const;
  // A sentence for each file that was opened and has several names.
  std::vector<std::string> notes() const;

 private:
  struct File {
    std::string location;
    std::string sha1;  // "": not computed yet
    bool was_opened = false;
    bool has_other_names = false;
  };

  const std::string folder_path_;
  const OpenFolder open_folder_;
  absl::flat_hash_map<std::string, size_t> numbers_;  // by location
  std::vector<std::string> paths_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<const ContainedFiles> open_files_;  // null: the folder was not opened
  mutable std::vector<File> files_;
};

}  // namespace tensorcask::onnx

#endif  // TENSORCASK_SERIALIZE_ONNX_INTERNAL_SIDE_FILES_H_
