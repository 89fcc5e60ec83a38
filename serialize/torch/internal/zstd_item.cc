// DecodeZstd of dcp_items.h.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/torch/internal/dcp_items.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "zstd.h"

namespace tensorcask::torch {
namespace {

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

RefPtr<TensorBuffer> BufferOf(std::unique_ptr<std::string> bytes) {
  TensorBuffer::External memory;
  memory.data = bytes->data();
  memory.size_bytes = bytes->size();
  memory.release = [kept = std::shared_ptr<std::string>(std::move(bytes))]() mutable { kept.reset(); };
  return TensorBuffer::WrapExternal(std::move(memory));
}

}  // namespace

absl::StatusOr<RefPtr<TensorBuffer>> DecodeZstd(const ByteSource& source, const DecodeLimits& limits,
                                                DecodeQuota* quota) {
  constexpr int kMostWindow = 25;  // bits: 32 MiB, more than any level up to 19 uses
  const uint64_t size = source.size_bytes();
  const auto most = CheckedMul(size, LimitOf(limits.max_expansion));
  QuotaCharge charge(quota);  // ends with an error
  const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  if (context == nullptr) return MarkResourceFailure(absl::ResourceExhaustedError("no memory for a decoder of zstd"));
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kMostWindow);
  std::string stored(ZSTD_DStreamInSize(), '\0');
  std::string piece(ZSTD_DStreamOutSize(), '\0');
  auto decoded = std::make_unique<std::string>();
  size_t wanted = 1;  // 0: a frame has ended
  for (uint64_t at = 0; at < size;) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(size - at, stored.size()));
    CASK_RETURN_IF_ERROR(source.ReadAt(at, absl::MakeSpan(stored.data(), count)));
    at += count;
    ZSTD_inBuffer in = {stored.data(), count, 0};
    bool is_full = false;  // the decoder may have more
    while (in.pos < in.size || is_full) {
      ZSTD_outBuffer out = {piece.data(), piece.size(), 0};
      wanted = ZSTD_decompressStream(context.get(), &out, &in);
      if (ZSTD_isError(wanted) != 0) {
        return absl::DataLossError(absl::StrCat("a zstd frame is damaged: ", ZSTD_getErrorName(wanted)));
      }
      is_full = out.pos == out.size && wanted != 0;
      if (most.has_value() && decoded->size() + out.pos > *most) {
        return PastLimit(absl::StrCat(size, " bytes of zstd decode to more than ", *most), "max_expansion",
                         limits.max_expansion);
      }
      CASK_RETURN_IF_ERROR(charge.Add(out.pos));
      decoded->append(piece.data(), out.pos);
    }
  }
  if (wanted != 0) return absl::DataLossError("a zstd frame is cut short");
  charge.Keep();
  return BufferOf(std::move(decoded));
}

}  // namespace tensorcask::torch
