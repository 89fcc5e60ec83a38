#include "tensorcask/serialize/payload/plane_codec.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/payload/idle_list.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/process_error.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::payload {
namespace {

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
using CompressionContext = std::unique_ptr<ZSTD_CCtx, FreeContext>;
using DecompressionContext = std::unique_ptr<ZSTD_DCtx, FreeContext>;

constexpr int kNumEfforts = 3;
constexpr size_t kIdleBytes = size_t{4} << 20;  // of contexts of a kind that wait for their next use

IdleList<CompressionContext, kIdleBytes>& IdleCompression(int effort) {
  static auto* const idle = new std::array<IdleList<CompressionContext, kIdleBytes>, kNumEfforts>();
  return (*idle)[effort];
}

IdleList<DecompressionContext, kIdleBytes>& IdleDecompression() {
  static auto* const idle = new IdleList<DecompressionContext, kIdleBytes>();
  return *idle;
}

struct Parameter {
  ZSTD_cParameter name;
  int value;
};

// Whether literals are Huffman coded: 1, always. By itself zstd leaves them as they are with the fast strategy and a
// target length. It has the name ZSTD_c_literalCompressionMode in what zstd.h calls experimental.
constexpr ZSTD_cParameter kLiteralsMode = ZSTD_c_experimentalParam5;

bool TrySetParameter(const Parameter& parameter, ZSTD_CCtx* context) {
  return !ZSTD_isError(ZSTD_CCtx_setParameter(context, parameter.name, parameter.value));
}

// Strategies are named, not left to the level: greedy and lazy ones let a context's earlier frames, in some versions of
// zstd, change the bytes of the next.
void SetParameters(PlaneEffort effort, ZSTD_CCtx* context) {
  const auto set = [context](std::initializer_list<Parameter> parameters) {
    for (const Parameter& parameter : parameters) {
      CASK_CHECK(TrySetParameter(parameter, context), "SetParameters: zstd refuses a parameter");
    }
  };
  set({{ZSTD_c_contentSizeFlag, 1}, {ZSTD_c_checksumFlag, 0}, {ZSTD_c_dictIDFlag, 0}});
  switch (effort) {
    case PlaneEffort::kLiterals:
      // Noise hardly ever repeats itself at one of 64 places, so nearly all time goes to Huffman coding. A window of 64
      // KiB means blocks of that size, each with a code of its own: layers of a model differ.
      set({{ZSTD_c_compressionLevel, 1},
           {ZSTD_c_strategy, ZSTD_fast},
           {ZSTD_c_hashLog, 6},
           {ZSTD_c_minMatch, 7},
           {ZSTD_c_windowLog, 16}});
      // Runs are found by looking at some places, too. Frames without this are as good, and slower: a zstd that has it
      // no longer does no harm.
      if (TrySetParameter({kLiteralsMode, 1}, context)) set({{ZSTD_c_targetLength, 8}});
      return;
    case PlaneEffort::kDefault:
      set({{ZSTD_c_compressionLevel, 3}, {ZSTD_c_strategy, ZSTD_dfast}});
      return;
    case PlaneEffort::kHigh:
      set({{ZSTD_c_compressionLevel, 16},
           {ZSTD_c_strategy, ZSTD_btopt},
           {ZSTD_c_searchLog, 3},
           {ZSTD_c_minMatch, 4},
           {ZSTD_c_targetLength, 24}});
      return;
  }
}

// log2 of 1 + i / 256, times 2^16.
constexpr std::array<uint32_t, 257> MakeLogs() {
  std::array<uint32_t, 257> logs = {};
  for (uint32_t i = 0; i <= 256; ++i) {
    uint64_t x = (uint64_t{256} + i) << 22;  // 1 is 2^30
    uint32_t log = 0;
    for (int bit = 16; bit >= 0; --bit) {  // squaring doubles the logarithm: its next bit is whether that passes 2
      if (x >= uint64_t{1} << 31) {
        log += uint32_t{1} << bit;
        x >>= 1;
      }
      x = (x * x) >> 30;
    }
    logs[i] = log;
  }
  return logs;
}
constexpr std::array<uint32_t, 257> kLogs = MakeLogs();

// log2 of x, times 2^16. Requires: 0 < x < 2^24.
uint64_t Log2(uint32_t x) {
  const int exponent = 31 - __builtin_clz(x);
  const uint32_t mantissa = (x << (24 - exponent)) & 0xffffff;  // 1 is 2^24
  const uint64_t low = kLogs[mantissa >> 16];
  const uint64_t high = kLogs[(mantissa >> 16) + 1];
  return (static_cast<uint64_t>(exponent) << 16) + low + (((high - low) * (mantissa & 0xffff)) >> 16);
}

absl::Status NoMemory(absl::string_view why) {
  return internal::ProcessError(absl::ResourceExhaustedError(absl::StrCat("no memory for zstd: ", why)));
}

template <typename... Parts>
absl::Status BadFrame(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("zstd frame: ", parts...));
}

// What stands before the blocks of a frame (RFC 8878 section 3.1.1.1).
struct FrameHeader {
  uint64_t window_bytes = 0;
  uint64_t content_bytes = 0;
};

absl::StatusOr<FrameHeader> ParseFrameHeader(absl::string_view frame) {
  constexpr uint32_t kMagic = 0xfd2fb528;
  constexpr uint32_t kSkippableMagic = 0x184d2a50;  // and the 15 after it
  if (frame.size() < 6) return BadFrame("has ", frame.size(), " bytes, too few for a header");
  const auto magic = LoadLittleEndian<uint32_t>(frame.data());
  if ((magic & ~uint32_t{0xf}) == kSkippableMagic) return BadFrame("is a skippable one");
  if (magic != kMagic) return BadFrame("begins with 0x", absl::Hex(magic), ", not 0x", absl::Hex(kMagic));

  const auto descriptor = static_cast<uint8_t>(frame[4]);
  const bool single_segment = (descriptor & 0x20) != 0;
  if ((descriptor & 0x08) != 0) return BadFrame("the reserved bit of its header is set");
  if ((descriptor & 0x03) != 0) return BadFrame("wants a dictionary; a plane has none");
  const int size_code = descriptor >> 6;
  if (size_code == 0 && !single_segment) return BadFrame("does not tell the size of its content");
  const size_t size_bytes = size_t{1} << size_code;
  size_t at = 5;
  if (frame.size() < at + (single_segment ? 0 : 1) + size_bytes) return BadFrame("ends in its header");

  FrameHeader header;
  if (!single_segment) {
    const auto window = static_cast<uint8_t>(frame[at++]);
    header.window_bytes = uint64_t{8u + (window & 7)} << (7 + (window >> 3));  // at most 15 << 38
  }
  for (size_t i = 0; i < size_bytes; ++i) {
    header.content_bytes |= uint64_t{static_cast<uint8_t>(frame[at + i])} << (8 * i);
  }
  if (size_bytes == 2) header.content_bytes += 256;
  if (single_segment) header.window_bytes = header.content_bytes;
  return header;
}

}  // namespace

struct PlaneEncoder::Contexts {
  ~Contexts() {
    for (int effort = 0; effort < kNumEfforts; ++effort) {
      const size_t bytes = ZSTD_sizeof_CCtx(by_effort[effort].get());
      if (bytes != 0) IdleCompression(effort).Give(std::move(by_effort[effort]), bytes);
    }
  }

  std::array<CompressionContext, kNumEfforts> by_effort;
};

PlaneEncoder::PlaneEncoder() : contexts_(std::make_unique<Contexts>()) {}
PlaneEncoder::~PlaneEncoder() = default;
PlaneEncoder::PlaneEncoder(PlaneEncoder&&) noexcept = default;

size_t PlaneEncoder::RoomFor(size_t size) { return ZSTD_compressBound(size); }

absl::StatusOr<CodedPlane> PlaneEncoder::Encode(absl::string_view plane, PlaneEffort effort, char* out) {
  const CodedPlane raw{PlaneKind::kRaw, plane.size()};
  if (plane.size() <= 1) return raw;
  if (std::memcmp(plane.data(), plane.data() + 1, plane.size() - 1) == 0) {
    out[0] = plane[0];
    return CodedPlane{PlaneKind::kConstant, 1};
  }
  CompressionContext& context = contexts_->by_effort[static_cast<int>(effort)];
  if (context == nullptr) context = IdleCompression(static_cast<int>(effort)).Take();
  if (context == nullptr) {
    context.reset(ZSTD_createCCtx());
    if (context == nullptr) return NoMemory("no context");
    SetParameters(effort, context.get());
  }
  // With all the room that a plane can need zstd takes its fastest way.
  const size_t size = ZSTD_compress2(context.get(), out, RoomFor(plane.size()), plane.data(), plane.size());
  if (ZSTD_isError(size)) {
    return NoMemory(ZSTD_getErrorName(size));  // nothing else is wrong with a plane
  }
  if (size >= plane.size() || plane.size() - size < plane.size() / 64) return raw;
  return CodedPlane{PlaneKind::kZstd, size};
}

size_t PlaneEncoder::MemoryBytes() const {
  size_t bytes = 0;
  for (const CompressionContext& context : contexts_->by_effort) bytes += ZSTD_sizeof_CCtx(context.get());
  return bytes;
}

double ByteEntropy(absl::string_view bytes) {
  if (bytes.empty()) return 0;
  // Four tables: equal bytes in a row need not wait for each other's count.
  std::array<std::array<uint32_t, 256>, 4> counts = {};
  size_t i = 0;
  for (; i + 4 <= bytes.size(); i += 4) {
    const auto four = LoadLittleEndian<uint32_t>(bytes.data() + i);
    ++counts[0][four & 0xff];
    ++counts[1][(four >> 8) & 0xff];
    ++counts[2][(four >> 16) & 0xff];
    ++counts[3][four >> 24];
  }
  for (; i < bytes.size(); ++i) ++counts[0][static_cast<uint8_t>(bytes[i])];
  uint64_t sum = 0;  // of count * log2(count)
  uint64_t symbols = 0;
  for (int symbol = 0; symbol < 256; ++symbol) {
    const uint32_t count = counts[0][symbol] + counts[1][symbol] + counts[2][symbol] + counts[3][symbol];
    if (count == 0) continue;
    sum += count * Log2(count);
    ++symbols;
  }
  // A small sample looks more ordered than what it is from; the last term makes up for it (Miller, Madow).
  const uint64_t size = bytes.size();
  const uint64_t missing = (symbols - 1) * 47274 / size;  // 65536 / (2 ln 2)
  const uint64_t entropy = Log2(static_cast<uint32_t>(size)) - sum / size + missing;
  return std::min(8.0, static_cast<double>(entropy) / 65536);
}

struct PlaneDecoder::Context {
  ~Context() {
    if (zstd == nullptr) return;
    const size_t bytes = ZSTD_sizeof_DCtx(zstd.get());
    IdleDecompression().Give(std::move(zstd), bytes);
  }

  DecompressionContext zstd;
};

PlaneDecoder::PlaneDecoder() : context_(std::make_unique<Context>()) {}
PlaneDecoder::~PlaneDecoder() = default;
PlaneDecoder::PlaneDecoder(PlaneDecoder&&) noexcept = default;

absl::Status PlaneDecoder::DecodeFrame(absl::string_view frame, absl::Span<char> out) {
  CASK_ASSIGN_OR_RETURN(const FrameHeader header, ParseFrameHeader(frame));
  if (header.content_bytes != out.size()) {
    return BadFrame("its content has ", header.content_bytes, " bytes; the plane has ", out.size());
  }
  if (header.window_bytes > kMaxFrameWindowBytes) {
    return BadFrame("its window has ", header.window_bytes, " bytes; ", kMaxFrameWindowBytes, " is the most");
  }
  const size_t frame_bytes = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(frame_bytes)) {
    return BadFrame("of ", frame.size(), " bytes has no end: ", ZSTD_getErrorName(frame_bytes));
  }
  if (frame_bytes != frame.size()) return BadFrame("ends after ", frame_bytes, " of ", frame.size(), " bytes");
  if (context_->zstd == nullptr) context_->zstd = IdleDecompression().Take();
  if (context_->zstd == nullptr) {
    context_->zstd.reset(ZSTD_createDCtx());
    if (context_->zstd == nullptr) return NoMemory("no context");
  }
  const size_t size = ZSTD_decompressDCtx(context_->zstd.get(), out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(size)) return BadFrame("does not decode: ", ZSTD_getErrorName(size));
  if (size != out.size()) return BadFrame("decodes to ", size, " bytes; the plane has ", out.size());
  return absl::OkStatus();
}

}  // namespace tensorcask::payload
