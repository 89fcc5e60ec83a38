#include "tensorcask/serialize/rpc/tensor_source.h"

#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tensorcask/serialize/rpc/internal/archive_with_text.h"
#include "tensorcask/serialize/rpc/internal/merged_archive.h"
#include "tensorcask/tensor/base/random_bytes.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

class ArchiveSource final : public TensorSource {
 public:
  explicit ArchiveSource(std::shared_ptr<const ArchiveReader> archive)
      : snapshot_{MakeTensorVersion(0), std::move(archive), /*in_memory=*/false} {}

  absl::StatusOr<TensorSnapshot> Current() override { return snapshot_; }
  absl::StatusOr<TensorSnapshot> WaitForNewer(const TensorVersion& version, Deadline deadline) override {
    if (version != snapshot_.version) return snapshot_;
    absl::SleepFor(deadline.remaining());
    return absl::DeadlineExceededError(absl::StrCat(snapshot_.tensors->path(), ": a file has no newer version"));
  }

 private:
  const TensorSnapshot snapshot_;
};

}  // namespace

std::string TensorVersion::ToString() const {
  return absl::StrCat("step ", step, " (id ", absl::Hex(id, absl::kZeroPad16), ")");
}

TensorVersion MakeTensorVersion(int64_t step) {
  TensorVersion version;
  version.step = step;
  if (!internal::FillWithRandomBytes(&version.id, sizeof(version.id))) {
    version.id = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  }
  if (version.id == 0) version.id = 1;
  return version;
}

absl::StatusOr<TensorVersion> TensorSource::Replace(TensorSet /*set*/) {
  return absl::UnimplementedError("what is served here cannot be replaced");
}

std::unique_ptr<TensorSource> ServeArchive(std::shared_ptr<const ArchiveReader> archive) {
  return std::make_unique<ArchiveSource>(rpc::WithValuesAsText(std::move(archive)));
}

absl::StatusOr<std::unique_ptr<TensorSource>> ServeArchives(std::vector<PrefixedArchive> archives) {
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ArchiveReader> merged, rpc::MergeArchives(std::move(archives)));
  return std::make_unique<ArchiveSource>(std::move(merged));
}

}  // namespace tensorcask
