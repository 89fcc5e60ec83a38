#include "tensorcask/serialize/rpc/follow_folder.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/archive/decoded_archive.h"
#include "tensorcask/serialize/archive/record_stream.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/rpc/internal/archive_with_text.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
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
      archive.file_metadata(), archive.notes());
}

// What a step is: a step that is saved again under the same number is another one.
struct StepIdentity {
  int64_t step = -1;
  FileInfo index;

  bool Is(const StepIdentity& other) const {
    const bool is_other_file = index.id.is_known() && !index.id.Is(other.index.id);
    return step == other.step && !is_other_file && index.size_bytes == other.index.size_bytes &&
           index.modified_unix_seconds == other.index.modified_unix_seconds;
  }
};

// Another thread looks at the folder and reads steps; what was found before is served meanwhile.
class FolderSource final : public TensorSource {
 public:
  FolderSource(std::string folder, OpenStep open, FollowFolderOptions options)
      : folder_(std::move(folder)), open_(std::move(open)), options_(std::move(options)) {}
  ~FolderSource() override {
    if (looker_.joinable()) looker_.join();
  }

  absl::StatusOr<TensorSnapshot> Current() override {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool begins = BeginLook();
    if (begins || snapshot_.tensors == nullptr) {
      looked_.wait_for(lock, absl::ToChronoNanoseconds(kPatience), [this] { return !is_looking_; });
    }
    if (snapshot_.tensors != nullptr) return snapshot_;
    return absl::UnavailableError(
        absl::StrCat(folder_, ": has no whole step yet: ", is_looking_ ? "it is being read" : why_.message()));
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
  // How long a caller waits for a look: small steps are served at once, and large ones hold up no thread of gRPC.
  static constexpr absl::Duration kPatience = absl::Seconds(1);

  // Begins a look for a newer step, unless one goes on or the last one was a moment ago. Requires: mutex_ is locked.
  bool BeginLook() {
    const absl::Time now = absl::Now();
    if (is_looking_ || (now < look_time_ + options_.interval && now >= look_time_)) return false;
    if (looker_.joinable()) looker_.join();  // which has done its work
    looker_ = std::thread([this] { Look(); });
    look_time_ = now;
    is_looking_ = true;
    return true;
  }

  void Look() {
    TensorSnapshot next;
    absl::Status status = CatchExceptions([&] { return FindNext(&next); });
    const std::lock_guard<std::mutex> lock(mutex_);
    if (next.tensors != nullptr) std::swap(snapshot_, next);
    why_ = std::move(status);
    is_looking_ = false;
    looked_.notify_all();
  }

  // Leaves *next empty if the step that is served is the newest one.
  absl::Status FindNext(TensorSnapshot* next) {
    LatestCheckpoint latest;
    StepIdentity found;
    CASK_RETURN_IF_ERROR(FindStep(CheckStep::kStructure, &latest, &found));
    if (found.Is(examined_)) return absl::OkStatus();
    const StepIdentity newest = found;
    if (options_.check != CheckStep::kStructure) CASK_RETURN_IF_ERROR(FindStep(options_.check, &latest, &found));
    if (!found.Is(served_)) {
      TensorSnapshot read;
      read.version = MakeTensorVersion(latest.step);
      CASK_ASSIGN_OR_RETURN(std::unique_ptr<ArchiveReader> opened, open_(latest.prefix));
      read.tensors = rpc::WithValuesAsText(std::move(opened));
      if (options_.in_memory) {
        CASK_ASSIGN_OR_RETURN(read.tensors, ReadAll(*read.tensors));
        read.in_memory = true;
      }
      *next = std::move(read);
      served_ = found;
    }
    examined_ = newest;
    return absl::OkStatus();
  }

  absl::Status FindStep(CheckStep check, LatestCheckpoint* latest, StepIdentity* found) const {
    CASK_ASSIGN_OR_RETURN(*latest, FindLatestCheckpoint(folder_, options_.name, check, options_.file_system));
    found->step = latest->step;
    CASK_ASSIGN_OR_RETURN(found->index, DescribeFile(absl::StrCat(latest->prefix, ".index"), options_.file_system));
    return absl::OkStatus();
  }

  const std::string folder_;
  const OpenStep open_;
  const FollowFolderOptions options_;
  // Of the thread that looks.
  StepIdentity examined_;  // the newest step whose structure is whole, when all of the last look was done
  StepIdentity served_;

  std::mutex mutex_;
  std::condition_variable looked_;
  absl::Time look_time_ = absl::InfinitePast();
  bool is_looking_ = false;
  absl::Status why_;  // there is no newer step
  TensorSnapshot snapshot_;
  std::thread looker_;  // ends after each look: a process that forks between two of them has no such thread
};

}  // namespace

std::unique_ptr<TensorSource> FollowFolder(std::string folder, OpenStep open, FollowFolderOptions options) {
  return std::make_unique<FolderSource>(std::move(folder), std::move(open), std::move(options));
}

}  // namespace tensorcask
