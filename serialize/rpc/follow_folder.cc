#include "tensorcask/serialize/rpc/follow_folder.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tensorcask/serialize/archive/decoded_archive.h"
#include "tensorcask/serialize/archive/record_stream.h"
#include "tensorcask/serialize/rpc/internal/archive_with_text.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

// All tensors of an archive that can be read.
absl::StatusOr<std::shared_ptr<const ArchiveReader>> ReadAll(const ArchiveReader& archive) {
  KeptTensors kept;
  for (const ArchiveEntry& entry : archive.entries()) {
    if (!entry.read_status.ok()) continue;
    NamedRecord record;
    CASK_ASSIGN_OR_RETURN(record.tensor, archive.ReadWithMetadata(entry.name));
    record.entry = DescribeTensor(entry.name, record.tensor);
    kept.Add(std::move(record));
  }
  return rpc::WithFileMetadata(
      MakeDecodedArchive(archive.format(), archive.path(), std::move(kept), archive.has_names()),
      archive.file_metadata());
}

class FolderSource final : public TensorSource {
 public:
  FolderSource(std::string folder, OpenStep open, FollowFolderOptions options)
      : folder_(std::move(folder)), open_(std::move(open)), options_(std::move(options)) {}

  absl::StatusOr<TensorSnapshot> Current() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    Look();
    if (snapshot_.tensors != nullptr) return snapshot_;
    return absl::UnavailableError(absl::StrCat(folder_, ": has no whole step yet: ", why_.message()));
  }

  absl::StatusOr<TensorSnapshot> WaitForNewer(const TensorVersion& version, Deadline deadline) override {
    while (true) {
      absl::StatusOr<TensorSnapshot> current = Current();
      if (current.ok() && current->version != version) return current;
      const absl::Duration left = deadline.remaining();
      if (left <= absl::ZeroDuration()) {
        if (!current.ok()) return current;
        return absl::DeadlineExceededError(absl::StrCat(folder_, ": no step newer than ", version.ToString()));
      }
      absl::SleepFor(std::min(left, std::max(options_.interval, absl::Milliseconds(1))));
    }
  }

 private:
  // Looks for a newer step, unless the last look was a moment ago.
  void Look() {
    const absl::Time now = absl::Now();
    if (now < looked_ + options_.interval && now >= looked_) return;
    looked_ = now;
    why_ = TakeNewest();
  }

  absl::Status TakeNewest() {
    CASK_ASSIGN_OR_RETURN(const LatestCheckpoint latest,
                          FindLatestCheckpoint(folder_, options_.name, options_.check, options_.file_system));
    if (snapshot_.tensors != nullptr && latest.step == snapshot_.version.step) return absl::OkStatus();
    TensorSnapshot next;
    next.version = MakeTensorVersion(latest.step);
    CASK_ASSIGN_OR_RETURN(std::unique_ptr<ArchiveReader> opened, open_(latest.prefix));
    next.tensors = rpc::WithValuesAsText(std::move(opened));
    if (options_.in_memory) {
      CASK_ASSIGN_OR_RETURN(next.tensors, ReadAll(*next.tensors));
      next.in_memory = true;
    }
    snapshot_ = std::move(next);
    return absl::OkStatus();
  }

  const std::string folder_;
  const OpenStep open_;
  const FollowFolderOptions options_;
  std::mutex mutex_;
  absl::Time looked_ = absl::InfinitePast();
  absl::Status why_;  // there is no newer step
  TensorSnapshot snapshot_;
};

}  // namespace

std::unique_ptr<TensorSource> FollowFolder(std::string folder, OpenStep open, FollowFolderOptions options) {
  return std::make_unique<FolderSource>(std::move(folder), std::move(open), std::move(options));
}

}  // namespace tensorcask
