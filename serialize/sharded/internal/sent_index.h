// The index of a checkpoint, which rank 0 reads and sends to all.
//
//   CASK_ASSIGN_OR_RETURN(const std::string sent, SendIndex(comm, prefix, options));        // on every rank
//   CASK_ASSIGN_OR_RETURN(const auto opened, SentCheckpoint::Open(prefix, sent, options));  // keep `sent`
//   opened->reader().ReadSliceInto(...);

#ifndef TENSORCASK_SERIALIZE_SHARDED_INTERNAL_SENT_INDEX_H_
#define TENSORCASK_SERIALIZE_SHARDED_INTERNAL_SENT_INDEX_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/sharded/communicator.h"

namespace tensorcask::sharded {

// Errors, the same on all ranks: those of CheckSamePath (exchange.h) and CheckpointReader::Open; those of the
// communicator.
absl::StatusOr<std::string> SendIndex(Communicator* comm, const std::string& prefix,
                                      const CheckpointReaderOptions& options);

// The checkpoint, opened by one rank with the index that was sent. Its data files are opened where they are.
class SentCheckpoint {
 public:
  // `sent` outlives the result. Where file systems number files on each host, the index is read here, too, to compare
  // it. Errors: those of CheckpointReader::Open; Internal for bytes that SendIndex does not give.
  static absl::StatusOr<std::unique_ptr<SentCheckpoint>> Open(const std::string& prefix, absl::string_view sent,
                                                              CheckpointReaderOptions options);

  const CheckpointReader& reader() const { return *reader_; }

 private:
  SentCheckpoint() = default;

  std::unique_ptr<FileSystem> files_;  // null for a checkpoint of one file (V1), which each rank opens itself
  std::optional<CheckpointReader> reader_;
};

}  // namespace tensorcask::sharded

#endif  // TENSORCASK_SERIALIZE_SHARDED_INTERNAL_SENT_INDEX_H_
