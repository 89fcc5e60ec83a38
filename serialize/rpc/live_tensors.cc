#include "tensorcask/serialize/rpc/live_tensors.h"

#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/archive/decoded_archive.h"
#include "tensorcask/serialize/archive/record_stream.h"
#include "tensorcask/serialize/rpc/internal/archive_with_text.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/strided/device_elements.h"

namespace tensorcask {
namespace {

absl::Status NothingPublished() { return absl::UnavailableError("no tensors have been published yet"); }

}  // namespace

absl::Status LiveTensors::Publish(int64_t step, std::vector<NamedView> tensors, FileMetadata file_metadata) {
  return Replace({step, std::move(tensors), std::move(file_metadata)}).status();
}

absl::StatusOr<TensorVersion> LiveTensors::Replace(TensorSet set) {
  KeptTensors kept;
  for (NamedView& named : set.tensors) {
    DecodedTensor tensor;
    CASK_ANNOTATE_IF_ERROR(named.metadata.Validate(named.view.dtype()), absl::StrCat("tensor ", Quoted(named.name)));
    CASK_ASSIGN_OR_ANNOTATE(const TensorView on_host, internal::InHostMemory(named.view),
                            absl::StrCat("tensor ", Quoted(named.name)));
    CASK_ASSIGN_OR_ANNOTATE(tensor.view, on_host.LazyClone(), absl::StrCat("tensor ", Quoted(named.name)));
    tensor.metadata = std::move(named.metadata);
    NamedRecord record;
    record.entry = DescribeTensor(std::move(named.name), tensor);
    record.tensor = std::move(tensor);
    kept.Add(std::move(record));
  }
  kept.SortByName();
  for (size_t i = 1; i < kept.entries.size(); ++i) {
    if (kept.entries[i].name == kept.entries[i - 1].name) {
      return absl::AlreadyExistsError(absl::StrCat("two tensors are called ", Quoted(kept.entries[i].name)));
    }
  }
  TensorSnapshot next;
  next.version = MakeTensorVersion(set.step);
  next.tensors = MakeDecodedArchive("live", absl::StrCat("step ", set.step), std::move(kept), /*has_names=*/true);
  if (!set.file_metadata.empty()) {
    next.tensors = rpc::WithFileMetadata(std::move(next.tensors), std::move(set.file_metadata), {});
  }
  next.in_memory = true;
  const TensorVersion version = next.version;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::swap(snapshot_, next);
  }
  published_.notify_all();
  return version;  // what was served before is freed here, outside the lock
}

absl::StatusOr<TensorSnapshot> LiveTensors::Current() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (snapshot_.tensors == nullptr) return NothingPublished();
  return snapshot_;
}

absl::StatusOr<TensorSnapshot> LiveTensors::WaitForNewer(const TensorVersion& version, Deadline deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (snapshot_.tensors == nullptr || snapshot_.version == version) {
    const absl::Duration left = deadline.remaining();
    if (left <= absl::ZeroDuration()) {
      if (snapshot_.tensors == nullptr) return NothingPublished();
      return absl::DeadlineExceededError(absl::StrCat("nothing newer than ", version.ToString(), " was published"));
    }
    published_.wait_for(lock, absl::ToChronoNanoseconds(std::min(left, absl::Hours(1))));
  }
  return snapshot_;
}

}  // namespace tensorcask
