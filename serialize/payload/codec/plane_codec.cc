#include "tensorcask/serialize/payload/codec/plane_codec.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/payload/codec/huffman_decoder.h"
#include "tensorcask/serialize/payload/codec/huffman_encoder.h"
#include "tensorcask/serialize/payload/codec/huffman_plan.h"
#include "tensorcask/serialize/payload/codec/idle_list.h"
#include "tensorcask/serialize/payload/codec/scratch.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::payload {
namespace {

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
using CompressionContext = std::unique_ptr<ZSTD_CCtx, FreeContext>;
using DecompressionContext = std::unique_ptr<ZSTD_DCtx, FreeContext>;

// The planner and the encoder of Huffman codes.
struct HuffmanContext {
  HuffmanPlanner planner;
  HuffmanEncoder encoder;

  size_t MemoryBytes() const { return sizeof(*this) + planner.MemoryBytes() + encoder.MemoryBytes(); }
};

constexpr int kNumEfforts = 3;
constexpr size_t kIdleBytes = size_t{4} << 20;  // the most that idle contexts of one kind take

IdleList<CompressionContext, kIdleBytes>& IdleCompression(int effort) {
  static auto* const idle = new std::array<IdleList<CompressionContext, kIdleBytes>, kNumEfforts>();
  return (*idle)[effort];
}

IdleList<DecompressionContext, kIdleBytes>& IdleDecompression() {
  static auto* const idle = new IdleList<DecompressionContext, kIdleBytes>();
  return *idle;
}

IdleList<std::unique_ptr<HuffmanContext>, kIdleBytes>& IdleHuffmanEncoding() {
  static auto* const idle = new IdleList<std::unique_ptr<HuffmanContext>, kIdleBytes>();
  return *idle;
}

IdleList<std::unique_ptr<HuffmanDecoder>, kIdleBytes>& IdleHuffmanDecoding() {
  static auto* const idle = new IdleList<std::unique_ptr<HuffmanDecoder>, kIdleBytes>();
  return *idle;
}

// An idle context, or a new one.
template <typename T>
std::unique_ptr<T> AcquireOrMake(IdleList<std::unique_ptr<T>, kIdleBytes>& idle) {
  std::unique_ptr<T> context = idle.Acquire();
  return context != nullptr ? std::move(context) : std::make_unique<T>();
}

// Smaller planes do not pay for Huffman tables.
constexpr size_t kLeastHuffmanBytes = size_t{1} << 15;

// Huffman codes are decoded faster: a frame must be smaller by a 64th. By a 100th is what it must be at some pieces of
// a plane to be tried on all of it.
constexpr uint64_t kFrameGain = 64;
constexpr uint64_t kSampledFrameGain = 100;
constexpr size_t kFramePieceBytes = 512;

// A search for all repetitions must gain a 64th of four pieces of a plane, and at two of them at least: a single one
// may be a rare constant stretch. The pieces are a 16th of the plane at most. In a small plane one piece decides, an
// eighth of it. A tiny plane is searched.
constexpr uint64_t kSearchGain = 64;
constexpr size_t kSearchedPieces = 4;
constexpr size_t kSearchedPieceBytes = 2048;
constexpr size_t kSmallPlaneBytes = 4 * kSearchedPieces * kSearchedPieceBytes;
constexpr size_t kTinyPlaneBytes = 1024;

constexpr size_t kPlaneSampleBytes = kSearchedPieces * kSearchedPieceBytes;
static_assert(kPlaneSampleBytes == 16 * kFramePieceBytes, "both estimates have samples of the same size");

// True if bytes repeat the ones 1, 2 or 4 before them. Finds every such repetition of at least 20 bytes.
bool HasRepetitions(absl::string_view bytes) {
  for (size_t i = 0; i + 12 <= bytes.size(); i += 8) {
    const auto eight = LoadLittleEndian<uint64_t>(bytes.data() + i);
    for (const size_t distance : {1, 2, 4}) {
      if (LoadLittleEndian<uint64_t>(bytes.data() + i + distance) == eight) return true;
    }
  }
  return false;
}

struct Parameter {
  ZSTD_cParameter name;
  int value;
};

// Whether literals are Huffman coded: 1, always. By default zstd does not code them with the fast strategy and a target
// length. It has the name ZSTD_c_literalCompressionMode in what zstd.h calls experimental.
constexpr ZSTD_cParameter kLiteralsMode = ZSTD_c_experimentalParam5;

// With this the lazy strategy does not keep its hash table in rows. With rows, in some versions of zstd, a context's
// earlier frames change the bytes of the next. The parameter has the name ZSTD_c_useRowMatchFinder in what zstd.h calls
// experimental; 2 means "never". A zstd that refuses it has no rows.
constexpr Parameter kNoRows = {ZSTD_c_experimentalParam14, 2};

// From 1.5.5 on, the lazy strategy does not note each place of noise, and misses most repetitions of it. With a tree it
// notes all of them, and finds what the lazy strategy of older versions finds, in 1.5 to 4 times its time.
ZSTD_strategy LazyStrategy() { return ZSTD_versionNumber() < 10505 ? ZSTD_lazy2 : ZSTD_btlazy2; }

bool TrySetParameter(const Parameter& parameter, ZSTD_CCtx* context) {
  return !ZSTD_isError(ZSTD_CCtx_setParameter(context, parameter.name, parameter.value));
}

// Strategies are named, not left to the level: what a context's earlier frames leave behind must not change the bytes
// of the next.
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
      // Runs are also found by sampling positions. A zstd without this option writes frames that are as small, more
      // slowly.
      if (TrySetParameter({kLiteralsMode, 1}, context)) set({{ZSTD_c_targetLength, 8}});
      return;
    case PlaneEffort::kDefault:
      set({{ZSTD_c_compressionLevel, 3}, {ZSTD_c_strategy, ZSTD_dfast}});
      return;
    case PlaneEffort::kHigh:
      // Exponents have many short repetitions. They would cost more than the bytes, so matches have at least 6 bytes.
      set({{ZSTD_c_compressionLevel, 7},
           {ZSTD_c_strategy, LazyStrategy()},
           {ZSTD_c_searchLog, 2},
           {ZSTD_c_minMatch, 6}});
      TrySetParameter(kNoRows, context);
      return;
  }
}

absl::Status NoMemory(absl::string_view why) {
  return MarkResourceFailure(absl::ResourceExhaustedError(absl::StrCat("no memory for zstd: ", why)));
}

template <typename... Parts>
absl::Status BadFrame(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("zstd frame: ", parts...));
}

// The header of a frame (RFC 8878 section 3.1.1.1).
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
      const size_t bytes = ZSTD_sizeof_CCtx(zstd[effort].get());
      if (bytes != 0) IdleCompression(effort).Give(std::move(zstd[effort]), bytes);
    }
    if (huffman == nullptr) return;
    const size_t bytes = huffman->MemoryBytes();
    IdleHuffmanEncoding().Give(std::move(huffman), bytes);
  }

  // Valid until the next call.
  absl::StatusOr<absl::string_view> EncodeFrame(absl::string_view plane, PlaneEffort effort) {
    CASK_RETURN_IF_ERROR(frame.Reserve(ZSTD_compressBound(plane.size())));
    CompressionContext& context = zstd[static_cast<int>(effort)];
    if (context == nullptr) context = IdleCompression(static_cast<int>(effort)).Acquire();
    if (context == nullptr) {
      context.reset(ZSTD_createCCtx());
      if (context == nullptr) return NoMemory("no context");
      SetParameters(effort, context.get());
    }
    // With ZSTD_compressBound bytes of output, zstd uses its fastest path.
    const size_t size = ZSTD_compress2(context.get(), frame.data(), frame.size_bytes(), plane.data(), plane.size());
    if (ZSTD_isError(size)) return NoMemory(ZSTD_getErrorName(size));  // the only possible error
    return absl::string_view(frame.data(), size);
  }

  // Pieces from all of the plane, valid until the next call. Requires: they are fewer bytes than the plane, and fit.
  absl::string_view SampleOf(absl::string_view plane, size_t pieces, size_t piece_bytes) {
    const size_t stride = plane.size() / pieces;
    for (size_t i = 0; i < pieces; ++i) {
      // Not at the beginning of each stretch: rows of a matrix may begin there.
      const size_t place = i * stride + i * 2654435761u % (stride - piece_bytes + 1);
      std::memcpy(sample.data() + i * piece_bytes, plane.data() + place, piece_bytes);
    }
    return {sample.data(), pieces * piece_bytes};
  }

  // Estimates from pieces of the plane whether a frame would be smaller than `other_bytes`.
  absl::StatusOr<bool> SampleSpeaksForFrame(absl::string_view plane, size_t other_bytes) {
    const size_t pieces = std::min(sample.size(), plane.size() / 8) / kFramePieceBytes;
    const absl::string_view sampled = SampleOf(plane, pieces, kFramePieceBytes);
    if (!HasRepetitions(sampled)) return false;
    CASK_ASSIGN_OR_RETURN(const absl::string_view coded, EncodeFrame(sampled, PlaneEffort::kLiterals));
    const size_t others_part = other_bytes * sampled.size() / plane.size();
    return coded.size() < others_part - others_part / kSampledFrameGain;
  }

  std::array<CompressionContext, kNumEfforts> zstd;
  std::unique_ptr<HuffmanContext> huffman;
  Scratch frame;
  std::array<char, kPlaneSampleBytes> sample;
};

PlaneEncoder::PlaneEncoder() : contexts_(std::make_unique<Contexts>()) {}
PlaneEncoder::~PlaneEncoder() = default;
PlaneEncoder::PlaneEncoder(PlaneEncoder&&) noexcept = default;

absl::StatusOr<CodedPlane> PlaneEncoder::Encode(absl::string_view plane, PlaneEffort effort, char* out) {
  const CodedPlane raw{PlaneKind::kRaw, plane.size()};
  if (plane.size() <= 1) return raw;
  if (std::memcmp(plane.data(), plane.data() + 1, plane.size() - 1) == 0) {
    out[0] = plane[0];
    return CodedPlane{PlaneKind::kConstant, 1};
  }
  const auto is_worth_it = [&plane](size_t size) {
    return size < plane.size() && plane.size() - size >= plane.size() / 64;
  };
  const HuffmanPlan* plan = nullptr;
  if (effort == PlaneEffort::kLiterals && plane.size() >= kLeastHuffmanBytes) {
    if (contexts_->huffman == nullptr) contexts_->huffman = AcquireOrMake(IdleHuffmanEncoding());
    CASK_ASSIGN_OR_RETURN(plan, contexts_->huffman->planner.Plan(plane));
  }
  bool try_frame = plan == nullptr || plan->wants_shorter_codes;
  if (!try_frame) {
    CASK_ASSIGN_OR_RETURN(try_frame, contexts_->SampleSpeaksForFrame(plane, plan->bytes));
  }
  if (try_frame) {
    CASK_ASSIGN_OR_RETURN(const absl::string_view frame, contexts_->EncodeFrame(plane, effort));
    if (plan == nullptr || frame.size() < plan->bytes - plan->bytes / kFrameGain) {
      if (!is_worth_it(frame.size())) return raw;
      std::memcpy(out, frame.data(), frame.size());
      return CodedPlane{PlaneKind::kZstd, frame.size()};
    }
  }
  if (!is_worth_it(plan->bytes)) return raw;
  CASK_ASSIGN_OR_RETURN(const size_t size, contexts_->huffman->encoder.Encode(plane, *plan, out));
  return CodedPlane{PlaneKind::kHuffman, size};
}

absl::StatusOr<bool> PlaneEncoder::SearchPays(absl::string_view plane) {
  if (plane.size() <= kTinyPlaneBytes) return true;
  const size_t pieces = plane.size() < kSmallPlaneBytes ? 1 : kSearchedPieces;
  const size_t piece_bytes = std::min(plane.size() / (pieces == 1 ? 8 : 64), kSearchedPieceBytes);
  const absl::string_view sampled = contexts_->SampleOf(plane, pieces, piece_bytes);
  size_t literals_bytes = 0;
  size_t searched_bytes = 0;
  size_t smaller = 0;  // pieces
  for (size_t i = 0; i < pieces; ++i) {
    const absl::string_view piece = sampled.substr(i * piece_bytes, piece_bytes);
    CASK_ASSIGN_OR_RETURN(const absl::string_view literals, contexts_->EncodeFrame(piece, PlaneEffort::kLiterals));
    const size_t piece_literals_bytes = literals.size();
    CASK_ASSIGN_OR_RETURN(const absl::string_view searched, contexts_->EncodeFrame(piece, PlaneEffort::kHigh));
    smaller += searched.size() < piece_literals_bytes - piece_literals_bytes / kSearchGain ? 1 : 0;
    literals_bytes += piece_literals_bytes;
    searched_bytes += searched.size();
  }
  return smaller * 2 >= pieces && searched_bytes < literals_bytes - literals_bytes / kSearchGain;
}

size_t PlaneEncoder::MemoryBytes() const {
  size_t bytes =
      contexts_->frame.size_bytes() + (contexts_->huffman == nullptr ? 0 : contexts_->huffman->MemoryBytes());
  for (const CompressionContext& context : contexts_->zstd) bytes += ZSTD_sizeof_CCtx(context.get());
  return bytes;
}

struct PlaneDecoder::Contexts {
  ~Contexts() {
    if (zstd != nullptr) {
      const size_t bytes = ZSTD_sizeof_DCtx(zstd.get());
      IdleDecompression().Give(std::move(zstd), bytes);
    }
    if (huffman != nullptr) {
      const size_t bytes = huffman->MemoryBytes();
      IdleHuffmanDecoding().Give(std::move(huffman), bytes);
    }
  }

  DecompressionContext zstd;
  std::unique_ptr<HuffmanDecoder> huffman;
};

PlaneDecoder::PlaneDecoder() : contexts_(std::make_unique<Contexts>()) {}
PlaneDecoder::~PlaneDecoder() = default;
PlaneDecoder::PlaneDecoder(PlaneDecoder&&) noexcept = default;

absl::Status PlaneDecoder::Decode(PlaneKind kind, absl::string_view coded, absl::Span<char> out) {
  const PlaneCodec* const codec = FindPlaneCodec(kind);
  CASK_CHECK(codec != nullptr && codec->decode != nullptr, "Decode: a plane of this kind is not coded");
  return (this->*codec->decode)(coded, out);
}

absl::Status PlaneDecoder::DecodeHuffman(absl::string_view coded, absl::Span<char> out) {
  if (contexts_->huffman == nullptr) contexts_->huffman = AcquireOrMake(IdleHuffmanDecoding());
  return contexts_->huffman->Decode(coded, out);
}

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
  if (contexts_->zstd == nullptr) contexts_->zstd = IdleDecompression().Acquire();
  if (contexts_->zstd == nullptr) {
    contexts_->zstd.reset(ZSTD_createDCtx());
    if (contexts_->zstd == nullptr) return NoMemory("no context");
  }
  const size_t size = ZSTD_decompressDCtx(contexts_->zstd.get(), out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(size)) return BadFrame("does not decode: ", ZSTD_getErrorName(size));
  if (size != out.size()) return BadFrame("decodes to ", size, " bytes; the plane has ", out.size());
  return absl::OkStatus();
}

// ---- The table of kinds ---------------------------------------------------------------------------------------------

namespace {

// By number: a new kind is a row here, and a choice of PlaneEncoder::Encode.
constexpr PlaneCodec kCodecs[] = {
    {PlaneKind::kRaw, "raw", [](size_t decoded_bytes) { return decoded_bytes; }, nullptr, 0},
    {PlaneKind::kConstant, "constant", [](size_t /*decoded_bytes*/) { return size_t{1}; }, nullptr, 0},
    {PlaneKind::kZstd, "zstd-coded", nullptr, &PlaneDecoder::DecodeFrame, 0},
    {PlaneKind::kHuffman, "Huffman-coded", nullptr, &PlaneDecoder::DecodeHuffman, 128},
};

constexpr bool AreByNumber() {
  size_t number = 0;
  for (const PlaneCodec& codec : kCodecs) {
    if (static_cast<size_t>(codec.kind) != number++) return false;
  }
  return true;
}
static_assert(AreByNumber(), "the row of a kind is found by its number");

}  // namespace

size_t NumPlaneCodecs() { return std::size(kCodecs); }

const PlaneCodec* FindPlaneCodec(PlaneKind kind) {
  const auto number = static_cast<size_t>(kind);
  return number < std::size(kCodecs) ? &kCodecs[number] : nullptr;
}

absl::Status CheckPlaneSize(const PlaneCodec& codec, int index, size_t size, size_t decoded_bytes) {
  if (decoded_bytes == 0 && codec.kind != PlaneKind::kRaw) {
    return absl::InvalidArgumentError(
        absl::StrCat("plane ", index, " is ", codec.name, " but empty; an empty plane must be raw"));
  }
  if (codec.coded_bytes == nullptr || size == codec.coded_bytes(decoded_bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(codec.name, " plane ", index, " has ", size, " bytes; it needs ", codec.coded_bytes(decoded_bytes)));
}

}  // namespace tensorcask::payload
