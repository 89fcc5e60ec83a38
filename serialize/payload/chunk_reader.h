// The chunks of a payload: fetched, held against their checksums, decoded; on several threads at once.
//
//   const absl::Status status = chunks.ForEach(num_threads, 3, [&](ChunkReader::Session* session, size_t i) {
//     return session->Decode(i, outs[i]);
//   });
//
// What is wrong with a chunk is told with its number and what it holds: "chunk 3 (elements 786432 to 1048575): ...".

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CHUNK_READER_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CHUNK_READER_H_

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
#include "tensorcask/serialize/payload/payload_head.h"
#include "tensorcask/serialize/payload/payload_index.h"

namespace tensorcask::payload {

class ChunkReader {
 public:
  // `verify`: Decode compares checksums.
  ChunkReader(PayloadBytes bytes, PayloadIndex index, bool verify);
  ~ChunkReader();

  const PayloadHead& head() const { return index_.head(); }
  // The base's elements, which must outlive this.
  void SetBase(absl::string_view elements) { base_ = elements; }
  uint64_t chunks_decoded() const { return chunks_decoded_.load(std::memory_order_relaxed); }

  // What one thread needs, kept by the reader when the thread is done.
  class Session {
   public:
    explicit Session(const ChunkReader* chunks);
    ~Session();
    Session(Session&&) noexcept;

    // Requires: the base of a delta was set; `out` has the decoded size. Errors: DataLoss for a wrong checksum;
    // InvalidArgument; Unimplemented; ResourceExhausted; of the source. `past_cache`: as in JoinPlanes.
    absl::Status Decode(uint64_t i, absl::Span<char> out, bool past_cache = false);
    // The same into memory of the session, valid until the next call.
    absl::StatusOr<absl::string_view> Decode(uint64_t i);
    // The same, always with the checksum and without a base. What is wrong with the chunk goes to *damage, and the
    // result is then unspecified. Errors: what keeps it from looking.
    absl::StatusOr<absl::string_view> Check(uint64_t i, absl::Status* damage);

   private:
    friend class ChunkReader;
    struct Tools;
    absl::Status DecodeFetched(uint64_t i, absl::string_view stored, bool verify, const char* base,
                               absl::Span<char> out, bool past_cache);

    const ChunkReader* chunks_;
    std::unique_ptr<Tools> tools_;
  };

  // Calls fn(session, i) for each i < count on at most num_threads threads. The result is the first error in the order
  // of i; nothing new is begun after one.
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
  mutable std::atomic<uint64_t> chunks_decoded_{0};
};

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CHUNK_READER_H_
