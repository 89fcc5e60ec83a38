// Fetches, verifies and decodes the chunks of a payload, on several threads at once.
//
//   const absl::Status status = chunks.ForEach(num_threads, 3, [&](ChunkReader::Session* session, size_t i) {
//     return session->Decode(i, outs[i]);
//   });
//
// Errors of a chunk name its number and its elements: "chunk 3 (elements 786432 to 1048575): ...".

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_CHUNK_READER_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_CHUNK_READER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/payload/internal/payload_index.h"
#include "tensorcask/serialize/payload/payload_header.h"

namespace tensorcask::payload {

class ChunkReader {
 public:
  // `verify`: Decode compares checksums.
  ChunkReader(PayloadBytes bytes, PayloadIndex index, bool verify);
  ~ChunkReader();

  const PayloadHeader& header() const { return index_.header(); }
  // The base's elements, which must outlive this.
  void SetBase(absl::string_view elements) { base_ = elements; }
  uint64_t chunks_decoded() const { return chunks_decoded_.load(std::memory_order_relaxed); }

  // The decoders and buffers of one thread. The reader keeps them for the next call.
  class Session {
   public:
    explicit Session(const ChunkReader* chunks);
    ~Session();
    Session(Session&&) noexcept;

    // Requires: the base of a delta was set; `out` has the decoded size.
    // Errors: DataLoss for a wrong checksum; InvalidArgument; Unimplemented; ResourceExhausted; those of the source.
    // `non_temporal`: as in JoinPlanes.
    absl::Status Decode(uint64_t i, absl::Span<char> out, bool non_temporal = false);
    // The same into memory of the session, valid until the next call.
    absl::StatusOr<absl::string_view> Decode(uint64_t i);
    // The same, always with the checksum and without a base. Damage of the chunk goes to *damage, and the result is
    // then unspecified. Errors: failures to read.
    absl::StatusOr<absl::string_view> Check(uint64_t i, absl::Status* damage);

   private:
    friend class ChunkReader;
    struct Tools;
    absl::Status DecodeFetched(uint64_t i, absl::string_view stored, bool verify, const char* base,
                               absl::Span<char> out, bool non_temporal);

    const ChunkReader* chunks_;
    std::unique_ptr<Tools> tools_;
  };

  // Calls fn(session, i) for each i < count on at most num_threads threads. The result is the first error in the order
  // of i; after an error no further call is begun.
  absl::Status ForEach(int num_threads, size_t count,
                       absl::FunctionRef<absl::Status(Session* session, size_t i)> fn) const;

 private:
  absl::Status Named(uint64_t i, const absl::Status& status) const;

  const PayloadBytes bytes_;
  const PayloadIndex index_;
  const bool verify_;
  absl::string_view base_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Session::Tools>> idle_;
  mutable size_t num_tools_ = 0;  // made so far; idle_ has room for all
  mutable std::atomic<uint64_t> chunks_decoded_{0};
};

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_CHUNK_READER_H_
