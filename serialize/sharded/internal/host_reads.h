// What several ranks of one host want from files, read by one of them.
//
//   CASK_ASSIGN_OR_RETURN(HostReads reads, HostReads::Plan(comm, my_status, {{"w 0,4", 4096}, {"b", 64}}));
//   if (!reads.is_shared(0)) ...                       // this rank reads request 0 alone
//   CASK_RETURN_IF_ERROR(reads.Run(my_status, read, use));
//
// Requests with equal keys are for the same bytes. Of those that two or more ranks of a host have, the rank with the
// fewest bytes to read calls `read`, the largest first; all of them then call `use`. The memory is an anonymous file
// (host_memory.h): it has no name, and nothing is left of it after a crash. Ranks share a host if they see the same
// running system and the same process ids, and if each of them has read a random number in the memory of all others.
// Where they cannot (another container, another user, no /proc), nothing is shared.
//
// A reader fills its memory, the others use it, and then it is filled again: it takes 256 MiB, or as much as the
// largest request. Every function is called by all ranks, and returns the same status on all.

#ifndef TENSORCASK_SERIALIZE_SHARDED_INTERNAL_HOST_READS_H_
#define TENSORCASK_SERIALIZE_SHARDED_INTERNAL_HOST_READS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/sharded/communicator.h"
#include "tensorcask/serialize/sharded/internal/host_memory.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask::sharded {

struct HostRequest {
  std::string key;
  uint64_t bytes = 0;  // equal for equal keys; 0: the rank reads it alone
};

class HostReads {
 public:
  // `memory` has the bytes of the request, and starts at a multiple of 64.
  using Handle = absl::FunctionRef<absl::Status(size_t request, const RefPtr<TensorBuffer>& memory)>;

  static constexpr uint64_t kRoundBytes = uint64_t{256} << 20;

  // `mine`: how it went on this rank so far; `requests` count only if it is OK.
  // Errors: that of a rank, "rank 2: ..."; those of the communicator.
  static absl::StatusOr<HostReads> Plan(Communicator* comm, const absl::Status& mine,
                                        absl::Span<const HostRequest> requests, uint64_t round_bytes = kRoundBytes);

  bool is_shared(size_t request) const { return shared_[request]; }

  // Calls `read` with memory to fill for the shared requests that this rank reads, and `use` with filled memory for all
  // shared requests of this rank. The memory is valid until `use` returns.
  // Errors: those of Plan; ResourceExhausted without memory.
  absl::Status Run(const absl::Status& mine, Handle read, Handle use);

 private:
  // What a process tells the others: its host, and memory with a random number.
  struct Address {
    std::string host;  // "": it cannot share memory
    HostMemoryAddress proof;
    std::string number;
  };
  struct Place {
    uint64_t round = 0;
    size_t reader = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    size_t request = 0;
  };
  // What rank 0 plans with, of one rank.
  struct Wish {
    bool reaches = false;  // the memory of all ranks with its host
    std::vector<HostRequest> requests;
  };

  explicit HostReads(Communicator* comm) : comm_(comm) {}

  static std::string EncodeAddress(const Address& address);
  static bool ParseAddress(absl::string_view bytes, Address* address);
  static std::string EncodePlan(const std::vector<Address>& addresses, const std::vector<Wish>& wishes,
                                uint64_t round_bytes);

  absl::Status ExchangeAddresses();
  bool ReachesItsHost() const;
  absl::Status ParsePlan(absl::string_view plan);
  absl::Status ReadRound(uint64_t round, Handle read);
  absl::Status UseRound(uint64_t round, Handle use);

  Communicator* comm_;
  RefPtr<TensorBuffer> proof_;  // the memory with the random number
  std::vector<Address> addresses_;
  uint64_t num_rounds_ = 0;
  std::vector<bool> shared_;                  // by request
  std::vector<Place> reads_;                  // by this rank, sorted by round
  std::vector<Place> uses_;                   // the same
  RefPtr<TensorBuffer> memory_;               // for this rank, if it reads
  std::vector<uint64_t> descriptors_;         // by rank: of its memory
  std::vector<RefPtr<TensorBuffer>> theirs_;  // by rank: its memory, once it was opened
};

}  // namespace tensorcask::sharded

#endif  // TENSORCASK_SERIALIZE_SHARDED_INTERNAL_HOST_READS_H_
