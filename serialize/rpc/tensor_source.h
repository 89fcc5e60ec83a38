// Where the tensors of a server come from: a set of tensors, which has a version, and perhaps a newer set later.
//
//   std::unique_ptr<TensorSource> source = ServeArchive(*std::move(archive));          // a file of any format
//   CASK_ASSIGN_OR_RETURN(const auto server, TensorServer::Start(source.get(), {}));   // tensor_server.h
//
// live_tensors.h has the tensors of this process. Sources are thread-safe.

#ifndef TENSORCASK_SERIALIZE_RPC_TENSOR_SOURCE_H_
#define TENSORCASK_SERIALIZE_RPC_TENSOR_SOURCE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// Tensors of one version never change. `id` is random, so that two sets of one step have different versions.
struct TensorVersion {
  int64_t step = 0;
  uint64_t id = 0;  // 0: no set

  std::string ToString() const;  // "step 100 (id 1f00000000000003)"
  friend bool operator==(const TensorVersion& a, const TensorVersion& b) { return a.step == b.step && a.id == b.id; }
  friend bool operator!=(const TensorVersion& a, const TensorVersion& b) { return !(a == b); }
};
TensorVersion MakeTensorVersion(int64_t step);  // with a new id

// What is served at one moment.
struct TensorSnapshot {
  TensorVersion version;
  // Clients get its file_metadata() and its notes(), too. Values of other types than text are not served: ServeArchive
  // makes texts of them.
  std::shared_ptr<const ArchiveReader> tensors;
  // ReadWithMetadata of all tensors returns memory that is there already, and copies nothing.
  bool in_memory = false;
};

struct NamedView {
  std::string name;
  TensorView view;
  TensorMetadata metadata = {};
};

// What replaces all that is served.
struct TensorSet {
  int64_t step = 0;
  std::vector<NamedView> tensors;
  FileMetadata file_metadata = {};
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // The newest set. Must be quick. Errors, which are for the client: Unavailable if there is none yet,
  // FailedPrecondition if there never is one.
  virtual absl::StatusOr<TensorSnapshot> Current() = 0;
  // Waits until the version of the newest set is not `version`, and returns that set.
  // Errors: DeadlineExceeded; those of Current.
  virtual absl::StatusOr<TensorSnapshot> WaitForNewer(const TensorVersion& version, Deadline deadline) = 0;
  // Replaces all tensors, for a client that pushes them, and returns the new version.
  // Errors, after which the set before is still served: Unimplemented, the default, for sources that only serve.
  virtual absl::StatusOr<TensorVersion> Replace(TensorSet set);
};

// The tensors of a file, whatever its format, with its metadata; step 0. Tensors that cannot be read
// (ArchiveEntry::read_status) are not offered; notes tell clients of them. Values beside the tensors become texts, as
// in metadata of safetensors (archive/convert_archives.h), and a note tells clients of those that have none.
std::unique_ptr<TensorSource> ServeArchive(std::shared_ptr<const ArchiveReader> archive);

struct PrefixedArchive {
  std::string prefix;  // "old/": clients see the tensor "w" as "old/w", and "epoch" of the metadata as "old/epoch"
  std::shared_ptr<const ArchiveReader> archive;
};
// The same for several files. If two of them have different values of one key of their metadata, the first is served,
// and a note tells clients of the other.
// Errors: InvalidArgument without archives; AlreadyExists if two tensors have one name.
absl::StatusOr<std::unique_ptr<TensorSource>> ServeArchives(std::vector<PrefixedArchive> archives);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_RPC_TENSOR_SOURCE_H_
