#include "tensorcask/serialize/onnx/internal/side_files.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/piece_buffer.h"
#include "tensorcask/tensor/base/sha1.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::onnx {

size_t SideFiles::Add(const std::string& location) {
  const auto [it, is_new] = numbers_.emplace(location, files_.size());
  if (is_new) {
    files_.emplace_back().location = location;
    const bool is_here = folder_path_.empty() || folder_path_ == ".";
    paths_.push_back(is_here ? location : absl::StrCat(folder_path_, folder_path_.back() == '/' ? "" : "/", location));
  }
  return it->second;
}

absl::StatusOr<std::shared_ptr<const ByteSource>> SideFiles::Open(size_t number) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  File& file = files_[number];
  if (open_files_ == nullptr) {
    CASK_ASSIGN_OR_RETURN(ContainedFolder folder, open_folder_());
    open_files_ = std::make_unique<const ContainedFiles>(std::move(folder));
  }
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> opened, open_files_->Open(file.location));
  if (!file.was_opened) file.has_other_names = DescribeOpenFile(*opened).value_or(FileInfo()).num_names > 1;
  file.was_opened = true;
  return opened;
}

absl::StatusOr<std::string> SideFiles::Sha1Of(size_t number) const {
  CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> source, Open(number));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!files_[number].sha1.empty()) return files_[number].sha1;
  }
  constexpr uint64_t kBlockBytes = uint64_t{512} << 10;
  PieceBuffer block(source->size_bytes(), kBlockBytes);
  Sha1 hash;
  for (uint64_t done = 0; done < source->size_bytes();) {
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(block.size(), source->size_bytes() - done));
    CASK_RETURN_IF_ERROR(source->ReadAt(done, absl::MakeSpan(block.data(), bytes)));
    hash.Update(absl::string_view(block.data(), bytes));
    done += bytes;
  }
  std::string digits = hash.Finish();
  const std::lock_guard<std::mutex> lock(mutex_);
  files_[number].sha1 = digits;
  return digits;
}

std::vector<std::string> SideFiles::notes() const {
  std::vector<std::string> notes;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < files_.size(); ++i) {
    if (!files_[i].has_other_names) continue;
    notes.push_back(absl::StrCat(paths_[i], ": this file has other names (hard links), too"));
  }
  return notes;
}

}  // namespace tensorcask::onnx
