#include "tensorcask/serialize/sharded/internal/host_reads.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/sharded/internal/exchange.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/random_bytes.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::sharded {
namespace {

constexpr size_t kNumberBytes = 16;
constexpr uint64_t kAlignment = 64;

bool TakeText(absl::string_view* bytes, std::string* text) {
  uint64_t size = 0;
  if (!ParseVarint(bytes, &size) || size > bytes->size()) return false;
  *text = std::string(bytes->substr(0, size));
  bytes->remove_prefix(size);
  return true;
}

}  // namespace

std::string HostReads::EncodeAddress(const Address& address) {
  std::string out;
  AppendVarint(address.host.size(), &out);
  out += address.host;
  AppendVarint(address.proof.process, &out);
  AppendVarint(address.proof.descriptor, &out);
  AppendVarint(address.number.size(), &out);
  return out + address.number;
}

bool HostReads::ParseAddress(absl::string_view bytes, Address* address) {
  return TakeText(&bytes, &address->host) && ParseVarint(&bytes, &address->proof.process) &&
         ParseVarint(&bytes, &address->proof.descriptor) && TakeText(&bytes, &address->number) && bytes.empty();
}

absl::Status HostReads::ExchangeAddresses() {
  Address mine;
  const std::string host = NameOfHost();
  std::array<char, kNumberBytes> number;
  absl::StatusOr<RefPtr<TensorBuffer>> proof = AllocateHostMemory(kNumberBytes);
  if (!host.empty() && proof.ok() && internal::FillWithRandomBytes(number.data(), number.size())) {
    proof_ = *std::move(proof);
    std::memcpy(proof_->mutable_data(), number.data(), number.size());
    mine.host = host;
    mine.proof = AddressOf(*proof_);
    mine.number = std::string(number.data(), number.size());
  }
  const auto join = [](const std::vector<std::string>& all) -> absl::StatusOr<std::string> {
    std::string out;
    for (const std::string& address : all) {
      AppendVarint(address.size(), &out);
      out += address;
    }
    return out;
  };
  CASK_ASSIGN_OR_RETURN(const Agreement agreed, Agree(comm_, absl::OkStatus(), EncodeAddress(mine), join));
  CASK_RETURN_IF_ERROR(agreed.status);
  absl::string_view rest = agreed.answer;
  addresses_.resize(static_cast<size_t>(comm_->size()));
  for (Address& address : addresses_) {
    std::string bytes;
    if (!TakeText(&rest, &bytes) || !ParseAddress(bytes, &address)) {
      return absl::InternalError("rank 0 sent addresses that cannot be read");
    }
  }
  return absl::OkStatus();
}

bool HostReads::ReachesItsHost() const {
  const std::string& host = addresses_[static_cast<size_t>(comm_->rank())].host;
  if (host.empty()) return false;
  return std::all_of(addresses_.begin(), addresses_.end(), [&](const Address& address) {
    if (address.host != host) return true;
    const absl::StatusOr<RefPtr<TensorBuffer>> memory = OpenHostMemory(address.proof, address.number.size());
    return memory.ok() && (*memory)->bytes() == address.number;
  });
}

// The number of rounds, and for each shared piece: round, offset, bytes, the number of requests for it, and rank and
// request of each, first that of the reader.
std::string HostReads::EncodePlan(const std::vector<Address>& addresses, const std::vector<Wish>& wishes,
                                  uint64_t round_bytes) {
  struct Piece {
    uint64_t bytes = 0;
    std::vector<std::pair<size_t, size_t>> requests;  // rank, number there
    size_t reader = 0;                                // a position in `requests`
  };
  std::map<std::string, bool> shares;  // by host
  for (size_t rank = 0; rank < wishes.size(); ++rank) {
    const auto [host, is_new] = shares.emplace(addresses[rank].host, true);
    host->second = host->second && wishes[rank].reaches;
  }
  std::map<std::pair<std::string, std::string>, Piece> found;  // by host and key
  std::vector<uint64_t> load(wishes.size(), 0);                // bytes that the rank reads
  for (size_t rank = 0; rank < wishes.size(); ++rank) {
    for (size_t i = 0; i < wishes[rank].requests.size(); ++i) {
      const HostRequest& request = wishes[rank].requests[i];
      if (request.bytes == 0 || !shares[addresses[rank].host]) continue;
      Piece& piece = found[{addresses[rank].host, request.key}];
      piece.bytes = request.bytes;
      piece.requests.emplace_back(rank, i);
    }
  }
  std::vector<Piece*> pieces;  // in the order of hosts and keys
  for (auto& [key, piece] : found) {
    if (piece.requests.front().first == piece.requests.back().first) {
      load[piece.requests.front().first] += piece.bytes;
    } else {
      pieces.push_back(&piece);
    }
  }
  std::vector<Piece*> largest_first = pieces;
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [](const Piece* a, const Piece* b) { return a->bytes > b->bytes; });
  for (Piece* const piece : largest_first) {
    const auto reader = std::min_element(piece->requests.begin(), piece->requests.end(),
                                         [&](const auto& a, const auto& b) { return load[a.first] < load[b.first]; });
    load[reader->first] += piece->bytes;
    std::iter_swap(piece->requests.begin(), reader);
  }
  std::string out;
  uint64_t num_rounds = 0;
  std::vector<uint64_t> round(wishes.size(), 0);  // by reader
  std::vector<uint64_t> used(wishes.size(), 0);   // bytes of the round, by reader
  for (const Piece* const piece : pieces) {
    const size_t reader = piece->requests[0].first;
    uint64_t offset = (used[reader] + kAlignment - 1) / kAlignment * kAlignment;
    if (offset > 0 && (offset > round_bytes || piece->bytes > round_bytes - offset)) {
      ++round[reader];
      offset = 0;
    }
    used[reader] = offset + piece->bytes;
    num_rounds = std::max(num_rounds, round[reader] + 1);
    AppendVarint(round[reader], &out);
    AppendVarint(offset, &out);
    AppendVarint(piece->bytes, &out);
    AppendVarint(piece->requests.size(), &out);
    for (const auto& [rank, request] : piece->requests) {
      AppendVarint(rank, &out);
      AppendVarint(request, &out);
    }
  }
  std::string plan;
  AppendVarint(num_rounds, &plan);
  return plan + out;
}

absl::Status HostReads::ParsePlan(absl::string_view plan) {
  const absl::Status broken = absl::InternalError("rank 0 sent a plan of reads that cannot be read");
  const auto self = static_cast<size_t>(comm_->rank());
  if (!ParseVarint(&plan, &num_rounds_)) return broken;
  while (!plan.empty()) {
    Place place;
    uint64_t count = 0;
    if (!ParseVarint(&plan, &place.round) || !ParseVarint(&plan, &place.offset) || !ParseVarint(&plan, &place.bytes) ||
        !ParseVarint(&plan, &count) || place.round >= num_rounds_) {
      return broken;
    }
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t rank = 0;
      uint64_t request = 0;
      if (!ParseVarint(&plan, &rank) || !ParseVarint(&plan, &request) || rank >= addresses_.size()) return broken;
      if (i == 0) place.reader = static_cast<size_t>(rank);
      if (rank != self) continue;
      if (request >= shared_.size()) return broken;
      place.request = static_cast<size_t>(request);
      shared_[place.request] = true;
      uses_.push_back(place);
      if (i == 0) reads_.push_back(place);
    }
  }
  const auto sort = [](std::vector<Place>* places) {
    std::stable_sort(places->begin(), places->end(), [](const Place& a, const Place& b) { return a.round < b.round; });
  };
  sort(&reads_);
  sort(&uses_);
  return absl::OkStatus();
}

absl::StatusOr<HostReads> HostReads::Plan(Communicator* comm, const absl::Status& mine,
                                          absl::Span<const HostRequest> requests, uint64_t round_bytes) {
  HostReads reads(comm);
  CASK_RETURN_IF_ERROR(reads.ExchangeAddresses());
  std::string wish;
  absl::Status status = mine;
  if (status.ok()) {
    status = CatchExceptions([&]() -> absl::Status {
      AppendVarint(reads.ReachesItsHost() ? 1 : 0, &wish);
      for (const HostRequest& request : requests) {
        AppendVarint(request.key.size(), &wish);
        wish += request.key;
        AppendVarint(request.bytes, &wish);
      }
      return absl::OkStatus();
    });
  }
  const auto plan = [&](const std::vector<std::string>& all) -> absl::StatusOr<std::string> {
    std::vector<Wish> wishes(all.size());
    for (size_t rank = 0; rank < all.size(); ++rank) {
      absl::string_view rest = all[rank];
      uint64_t reaches = 0;
      bool is_whole = ParseVarint(&rest, &reaches);
      wishes[rank].reaches = reaches != 0;
      while (is_whole && !rest.empty()) {
        HostRequest& request = wishes[rank].requests.emplace_back();
        is_whole = TakeText(&rest, &request.key) && ParseVarint(&rest, &request.bytes);
      }
      if (!is_whole) return absl::InternalError(absl::StrCat("rank ", rank, " sent requests that cannot be read"));
    }
    return EncodePlan(reads.addresses_, wishes, round_bytes);
  };
  CASK_ASSIGN_OR_RETURN(const Agreement agreed, Agree(comm, status, wish, plan));
  CASK_RETURN_IF_ERROR(agreed.status);
  reads.shared_.assign(requests.size(), false);
  CASK_RETURN_IF_ERROR(reads.ParsePlan(agreed.answer));
  return reads;
}

absl::Status HostReads::ReadRound(uint64_t round, Handle read) {
  if (!reads_.empty() && !memory_) {
    const uint64_t bytes =
        std::accumulate(reads_.begin(), reads_.end(), uint64_t{0},
                        [](uint64_t most, const Place& at) { return std::max(most, at.offset + at.bytes); });
    CASK_ASSIGN_OR_RETURN(memory_, AllocateHostMemory(bytes));
  }
  for (const Place& place : reads_) {
    if (place.round != round) continue;
    CASK_RETURN_IF_ERROR(read(place.request, TensorBuffer::MakeSubBuffer(memory_, static_cast<size_t>(place.offset),
                                                                         static_cast<size_t>(place.bytes))));
  }
  return absl::OkStatus();
}

absl::Status HostReads::UseRound(uint64_t round, Handle use) {
  for (const Place& place : uses_) {
    if (place.round != round) continue;
    RefPtr<TensorBuffer>& theirs = theirs_[place.reader];
    if (!theirs && place.reader == static_cast<size_t>(comm_->rank())) theirs = memory_;
    if (!theirs) {
      CASK_ASSIGN_OR_RETURN(
          theirs, OpenHostMemory({addresses_[place.reader].proof.process, descriptors_[place.reader]}, UINT64_MAX));
    }
    if (place.offset > theirs->size_bytes() || place.bytes > theirs->size_bytes() - place.offset) {
      return absl::InternalError(absl::StrCat("rank ", place.reader, " shares ", theirs->size_bytes(),
                                              " bytes; wanted ", place.bytes, " at ", place.offset));
    }
    CASK_RETURN_IF_ERROR(use(place.request, TensorBuffer::MakeSubBuffer(theirs, static_cast<size_t>(place.offset),
                                                                        static_cast<size_t>(place.bytes))));
  }
  return absl::OkStatus();
}

absl::Status HostReads::Run(const absl::Status& mine, Handle read, Handle use) {
  theirs_.resize(addresses_.size());
  absl::Status status = mine;
  // In each round, one exchange ends the reading, and the next one the use of what was read.
  for (uint64_t round = 0; round < num_rounds_; ++round) {
    if (status.ok()) status = CatchExceptions([&] { return ReadRound(round, read); });
    std::string descriptor;
    AppendVarint(memory_ ? AddressOf(*memory_).descriptor : 0, &descriptor);
    const auto join = [](const std::vector<std::string>& all) -> absl::StatusOr<std::string> {
      std::string out;
      for (const std::string& each : all) out += each;
      return out;
    };
    CASK_ASSIGN_OR_RETURN(const Agreement filled, Agree(comm_, status, descriptor, join));
    CASK_RETURN_IF_ERROR(filled.status);
    absl::string_view rest = filled.answer;
    descriptors_.resize(addresses_.size());
    for (uint64_t& each : descriptors_) {
      if (!ParseVarint(&rest, &each)) return absl::InternalError("rank 0 sent descriptors that cannot be read");
    }
    status = CatchExceptions([&] { return UseRound(round, use); });
    CASK_RETURN_IF_ERROR(AgreeOnStatus(comm_, status));
  }
  return num_rounds_ > 0 ? absl::OkStatus() : AgreeOnStatus(comm_, status);
}

}  // namespace tensorcask::sharded
