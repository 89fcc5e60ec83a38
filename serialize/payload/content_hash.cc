#include "tensorcask/serialize/payload/content_hash.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/payload/codec/scratch.h"
#include "tensorcask/serialize/payload/internal/element_streams.h"
#include "tensorcask/serialize/payload/internal/process_secret.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{256} << 10;

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

// If `secret` is empty, with seed 0.
absl::StatusOr<ContentHash> Hash(const TensorView& view, absl::string_view secret) {
  CASK_ASSIGN_OR_RETURN(const payload::ElementStreams streams, payload::ElementStreams::Of(view));
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  if (state == nullptr) return MarkResourceFailure(absl::ResourceExhaustedError("no memory to hash elements"));
  if (secret.empty()) {
    XXH3_128bits_reset(state.get());
  } else {
    XXH3_128bits_reset_withSecret(state.get(), secret.data(), secret.size());
  }
  payload::Scratch scratch;
  for (const int stream : {0, 1}) {
    const uint64_t bytes = streams.size_bytes(stream);
    for (uint64_t begin = 0; begin < bytes; begin += kPieceBytes) {
      const auto size = static_cast<size_t>(std::min(bytes - begin, kPieceBytes));
      CASK_ASSIGN_OR_RETURN(const absl::string_view piece, streams.Read(stream, begin, size, &scratch));
      XXH3_128bits_update(state.get(), piece.data(), piece.size());
    }
  }
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state.get()));
  ContentHash hash;
  static_assert(sizeof(canonical.digest) == sizeof(hash.bytes));
  std::memcpy(hash.bytes.data(), canonical.digest, sizeof(canonical.digest));
  return hash;
}

}  // namespace

std::string ContentHash::ToString() const {
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

absl::StatusOr<ContentHash> HashElements(const TensorView& view) { return Hash(view, ""); }

absl::StatusOr<ContentHash> HashElementsInProcess(const TensorView& view) {
  return Hash(view, payload::ProcessSecret());
}

}  // namespace tensorcask
