// Answers clients at a Unix socket from files of any format: what `tensorcask serve` does.
//
//   std::vector<ArchiveService::Source> sources;
//   sources.push_back({"", *std::move(archive)});                            // archive.h
//   CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveService> service, ArchiveService::Create(std::move(sources)));
//   CASK_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::Listen("/run/x.sock", service.get()));
//   while (!interrupted) server->Run(absl::Milliseconds(100));
//
// Clients: served_format.h. The protocol: serialize/serve/FORMAT.md.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_ARCHIVE_SERVICE_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_ARCHIVE_SERVICE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/server.h"
#include "tensorcask/serialize/serve/serve_service.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask {

class ArchiveService final : public Service, private ServedTensors {
 public:
  struct Source {
    std::string prefix;  // put in front of the names that clients see: "a/" serves "w" as "a/w"
    std::unique_ptr<ArchiveReader> archive;
  };

  // Errors: AlreadyExists if two tensors have one name.
  static absl::StatusOr<std::unique_ptr<ArchiveService>> Create(std::vector<Source> sources);

  size_t num_tensors() const { return entries_.size(); }
  // What clients get as notes: those of the archives, and what is not served of them: the metadata of a file, values
  // beside the tensors, tensors that cannot be read (ArchiveEntry::read_status).
  const std::vector<std::string>& notes() const { return notes_; }

  Message Answer(const Message& request) override;
  uint64_t AnswerBytes(const Message& request) override;

 private:
  struct Entry {
    const ArchiveReader* archive;
    const ArchiveEntry* info;
  };

  absl::StatusOr<DecodedTensor> Read(size_t index, const TensorSlice* slice) const override;
  uint64_t ReadBytes(size_t index) const override;

  std::vector<Source> sources_;
  std::vector<Entry> entries_;
  std::vector<std::string> notes_;
  std::optional<ServeService> service_;  // set by Create
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_ARCHIVE_SERVICE_H_
