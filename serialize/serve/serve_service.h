// A server of tensors: answers requests for its list and for tensors, whatever the transport is.
//
//   class Model final : public ServedTensors { ... };                                   // reads the elements
//   CASK_ASSIGN_OR_RETURN(ServeService service, ServeService::Create(list, &model));
//   absl::StatusOr<std::vector<DecodedTensor>> reply = service.Answer(topic, tensors);   // a status is a reply, too
//
// serialize/archive/formats/archive_service.h answers from files, for clients at a Unix socket.

#ifndef TENSORCASK_SERIALIZE_SERVE_SERVE_SERVICE_H_
#define TENSORCASK_SERIALIZE_SERVE_SERVE_SERVICE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/serve/served_tensor.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask {

// Where the elements come from. An index is that of the tensor in the list that ServeService::Create got. Its functions
// may be called from several threads at once.
class ServedTensors {
 public:
  virtual ~ServedTensors() = default;

  // The tensor with its metadata; or the part of it that `slice` names, without metadata, if `slice` is not null.
  virtual absl::StatusOr<DecodedTensor> Read(size_t index, const TensorSlice* slice) const = 0;
  // About how much memory Read needs. Must be quick.
  virtual uint64_t ReadBytes(size_t index) const = 0;
};

class ServeService {
 public:
  // `source` must outlive the service. Clients get `notes`: sentences on what is not offered of the files.
  // Errors: AlreadyExists if two tensors have one name.
  static absl::StatusOr<ServeService> Create(std::vector<ServedTensor> tensors, const ServedTensors* source,
                                             std::vector<std::string> notes = {});

  size_t num_tensors() const { return indices_.size(); }

  // The tensors of the reply. Thread-safe.
  // Errors, which are for the client: InvalidArgument for what is not a request; Unimplemented, with both versions, for
  // a client of another version; NotFound for an unknown name; those of the source.
  absl::StatusOr<std::vector<DecodedTensor>> Answer(absl::string_view topic,
                                                    absl::Span<const DecodedTensor> tensors) const;
  // About how much memory the reply takes. Is quick.
  uint64_t AnswerBytes(absl::string_view topic, absl::Span<const DecodedTensor> tensors) const;

 private:
  explicit ServeService(const ServedTensors* source) : source_(source) {}

  const ServedTensors* source_;
  absl::flat_hash_map<std::string, size_t> indices_;
  std::vector<DecodedTensor> list_;
  uint64_t list_bytes_ = 0;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_SERVE_SERVE_SERVICE_H_
