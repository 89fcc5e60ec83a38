#include "tensorcask/serialize/rpc/tensor_source.h"

#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tensorcask/tensor/base/random_bytes.h"

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

std::unique_ptr<TensorSource> ServeArchive(std::shared_ptr<const ArchiveReader> archive) {
  return std::make_unique<ArchiveSource>(std::move(archive));
}

}  // namespace tensorcask
