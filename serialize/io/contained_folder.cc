#include "tensorcask/serialize/io/contained_folder.h"

#include <cerrno>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/internal/retry.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

using internal::RetryInterrupted;

absl::Status BadName(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("the name ", Quoted(name), " ", what));
}

}  // namespace

absl::StatusOr<std::string> ContainedName(absl::string_view name) {
  CASK_RETURN_IF_ERROR(CheckPath(name));
  if (name.front() == '/') return BadName(name, "is absolute; wanted one beneath the folder of the file");
  std::vector<absl::string_view> steps;
  absl::string_view last;
  for (const absl::string_view step : absl::StrSplit(name, '/')) {
    last = step;
    if (step.empty() || step == ".") continue;
    if (step != "..") {
      steps.push_back(step);
    } else if (steps.empty()) {
      return BadName(name, "leaves the folder of the file");
    } else {
      steps.pop_back();
    }
  }
  if (last.empty() || last == "." || last == "..") return BadName(name, "is that of a folder; wanted a file");
  return absl::StrJoin(steps, "/");
}

absl::StatusOr<ContainedFolder> ContainedFolder::Of(const std::string& file, Links links, const ReadOptions& options) {
  CASK_RETURN_IF_ERROR(CheckPath(file));
  ContainedFolder folder(FolderOf(file), options);
  if (options.source != nullptr) return folder;  // Open says that it has no files
  FileSystem* const files = options.file_system;
  const auto open = [&](bool resolved) -> absl::StatusOr<IoResult> {
    const IoResult opened = RetryInterrupted([&] { return files->OpenFolderOf(file, resolved); });
    if (opened >= 0) return opened;
    if (opened != -EOPNOTSUPP) return IoError(opened, folder.path_, "open the folder", files);
    return absl::UnimplementedError(
        absl::StrCat(folder.path_, ": this file system cannot open files beneath a folder"));
  };
  CASK_ASSIGN_OR_RETURN(folder.folder_, open(/*resolved=*/false));
  if (links == Links::kRefused) return folder;
  folder.targets_.push_back(folder.folder_);
  CASK_ASSIGN_OR_RETURN(const IoResult resolved, open(/*resolved=*/true));
  folder.targets_.push_back(resolved);
  return folder;
}

ContainedFolder::ContainedFolder(ContainedFolder&& other) noexcept
    : path_(std::move(other.path_)),
      options_(other.options_),
      folder_(std::exchange(other.folder_, -1)),
      targets_(std::exchange(other.targets_, {})) {}

ContainedFolder& ContainedFolder::operator=(ContainedFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(options_, other.options_);
  std::swap(folder_, other.folder_);
  std::swap(targets_, other.targets_);
  return *this;
}

ContainedFolder::~ContainedFolder() {
  for (const IoResult target : targets_) {
    if (target != folder_) options_.file_system->Close(target);
  }
  if (folder_ >= 0) options_.file_system->Close(folder_);
}

std::string ContainedFolder::PathOf(absl::string_view name) const {
  if (path_ == ".") return std::string(name);
  return absl::StrCat(path_, path_.back() == '/' ? "" : "/", name);
}

absl::StatusOr<std::shared_ptr<const ByteSource>> ContainedFolder::Open(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const std::string steps, ContainedName(name));
  FileSystem* const files = options_.file_system;
  const std::string path = PathOf(steps);
  CASK_RETURN_IF_ERROR(CheckHasNeighbours(path, options_));
  const IoResult handle = RetryInterrupted([&] { return files->OpenBeneath(folder_, steps, targets_); });
  if (handle == -ELOOP || handle == -EXDEV) {
    return absl::PermissionDeniedError(absl::StrCat(
        path, ": is a link, or lies behind one, that is not followed: it may lead to another place than the folder"));
  }
  return SourceOfHandle(path, handle, options_);
}

absl::StatusOr<std::shared_ptr<const ByteSource>> ContainedFiles::Open(const std::string& name) const {
  constexpr size_t kMostKeptOpen = 64;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = files_.find(name);
  if (found != files_.end()) {
    if (std::shared_ptr<const ByteSource> open = found->second.source.lock()) return open;
  }
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> opened, folder_.Open(name));
  const FileId id = DescribeOpenFile(*opened).value_or(FileInfo()).id;
  if (found == files_.end()) {
    files_.emplace(name, File{opened, id, opened->size_bytes()});
  } else {
    File& file = found->second;
    if (file.size_bytes != opened->size_bytes() || (file.id.is_known() && !file.id.Is(id))) {
      return absl::DataLossError(absl::StrCat(opened->name(), ": was replaced since it was first opened"));
    }
    file.source = opened;
  }
  if (kept_open_.size() == kMostKeptOpen) kept_open_.pop_front();
  kept_open_.push_back(opened);
  return opened;
}

}  // namespace tensorcask
