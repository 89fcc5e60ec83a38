#include "tensorcask/serialize/payload/codec/huffman_decoder.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/payload/codec/huffman_code.h"
#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/simd.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::payload {
namespace {

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("Huffman codes: ", parts...));
}

// The decoded bytes of all codes that are complete in the next 11 bits: the first byte in the highest 8 bits, the next
// one below it, and so on; their number (at most 5) in bits 8 to 15; the length of their codes in the lowest 6. A part
// is decoded from its last byte to its first, so storing the entry right before the previous byte puts each byte in its
// position.
using Entry = uint64_t;
constexpr int kMaxCodes = kMaxCodeBits / kMinCodeBits;
constexpr size_t kStep = 4;  // entries are made four at a time, so each table is followed by four unused ones
constexpr size_t kTableEntries = (size_t{1} << kMaxCodeBits) + kStep;
constexpr int kMostBitsLeft = kMaxCodeBits - kMinCodeBits;  // after one code
constexpr size_t kSmallTablesEntries = (size_t{2} << kMostBitsLeft) + (kMostBitsLeft + 1) * kStep;

int CodesIn(Entry entry) { return static_cast<int>(entry >> 8 & 0xff); }
uint8_t FirstByteIn(Entry entry) { return static_cast<uint8_t>(entry >> 56); }

// Makes the table that is indexed by the next 11 bits. A code of l bits leaves 11 - l bits, whose meaning is in the
// table for that many bits. The tables for up to 9 bits are made first, in `small`; an entry without a complete code
// has 0 codes.
inline __attribute__((always_inline)) void MakeTable(const CodeLengths& lengths, Entry* small, Entry* table) {
  std::array<uint8_t, 256> bytes;
  const int num_bytes = BytesInCodeOrder(lengths, &bytes);
  const auto table_of = [&](int bits) {
    return bits == kMaxCodeBits ? table : small + (size_t{1} << bits) - 1 + static_cast<size_t>(bits) * kStep;
  };
  const auto prepend = [](Entry first, Entry rest) { return (rest >> 8 & ~Entry{0xffff}) + (rest & 0xffff) + first; };
  for (int bits = 0; bits <= kMaxCodeBits; ++bits) {
    if (bits > kMostBitsLeft && bits < kMaxCodeBits) continue;
    Entry* __restrict to = table_of(bits);
    Entry* const end = to + (size_t{1} << bits);
    for (int i = 0; i < num_bytes && lengths[bytes[i]] <= bits; ++i) {
      const int length = lengths[bytes[i]];
      const Entry* __restrict const rest = table_of(bits - length);
      const Entry first = Entry{bytes[i]} << 56 | 1 << 8 | static_cast<Entry>(length);
      const size_t count = size_t{1} << (bits - length);
      for (size_t k = 0; k < count; k += kStep) {
        for (size_t m = 0; m < kStep; ++m) to[k + m] = prepend(first, rest[k + m]);
      }
      to += count;
    }
    std::fill(to, end + kStep, Entry{0});
  }
}

uint64_t LoadBigEndian(const uint8_t* at) { return __builtin_bswap64(LoadLittleEndian<uint64_t>(at)); }

// A stream of codes. `bits` has the 8 bytes at `at`, with the lowest bit replaced by a 1, shifted left by the number of
// bits that were used. So the number of zeros below that 1 is the number of used bits.
struct BitReader {
  const uint8_t* at = nullptr;
  uint64_t bits = 0;

  // Bytes from `end` on count as zeros.
  void Load(const uint8_t* end) {
    if (end - at >= 8) {
      bits = LoadBigEndian(at) | 1;
      return;
    }
    std::array<uint8_t, 8> bytes = {};
    std::copy(at, end, bytes.begin());
    bits = LoadBigEndian(bytes.data()) | 1;
  }

  int used() const { return __builtin_ctzll(bits); }

  // Moves past the used bits. False if they extend past `end`.
  bool Advance(const uint8_t* end) {
    const int skipped = used();
    if (skipped / 8 > end - at) return false;
    at += skipped / 8;
    Load(end);
    bits <<= skipped % 8;
    return true;
  }
};

// One stream and its output, which is written from `end` down to `begin`.
struct Lane {
  BitReader reader;
  uint8_t* begin = nullptr;
  uint8_t* end = nullptr;

  ptrdiff_t left() const { return end - begin; }
};
using Lanes = std::array<Lane, kHuffmanStreams>;

// Decodes several streams in turn, because each lookup depends on the one before it in its stream. A round is kLookups
// entries of each of the first `kLanes` streams. Ends when the next round might fill a part or pass `input_end`.
template <int kLanes, int kLookups>
inline __attribute__((always_inline)) void DecodeRounds(const Entry* table, const uint8_t* input_end, Lane** lanes) {
  static_assert(kLookups * kMaxCodeBits <= 63 - 7);
  constexpr ptrdiff_t kMostBytes = ptrdiff_t{kLookups} * kMaxCodes;
  constexpr ptrdiff_t kMostInput = (kLookups * kMaxCodeBits + 7) / 8;
  const uint8_t* at[kLanes];
  uint64_t bits[kLanes];
  uint8_t* out[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    at[i] = lanes[i]->reader.at;
    bits[i] = lanes[i]->reader.bits;
    out[i] = lanes[i]->end;
  }
  while (true) {
    ptrdiff_t rounds = PTRDIFF_MAX;
    for (int i = 0; i < kLanes; ++i) {
      // An entry is written as 8 bytes.
      rounds = std::min(rounds, (out[i] - lanes[i]->begin - (8 - kMaxCodes)) / kMostBytes);
      rounds = std::min(rounds, (input_end - at[i] - 8) / kMostInput);
    }
    if (rounds <= 0) break;
    for (; rounds > 0; --rounds) {
      CASK_UNROLL
      for (int lookup = 0; lookup < kLookups; ++lookup) {
        CASK_UNROLL
        for (int i = 0; i < kLanes; ++i) {
          const Entry entry = table[bits[i] >> (64 - kMaxCodeBits)];
          bits[i] <<= entry & 63;
          StoreLittleEndian(entry, out[i] - 8);
          out[i] -= entry >> 8 & 0xff;
        }
      }
      CASK_UNROLL
      for (int i = 0; i < kLanes; ++i) {
        const int used = __builtin_ctzll(bits[i]);
        at[i] += used / 8;
        bits[i] = (LoadBigEndian(at[i]) | 1) << (used % 8);
      }
    }
  }
  for (int i = 0; i < kLanes; ++i) {
    lanes[i]->reader = {at[i], bits[i]};
    lanes[i]->end = out[i];
  }
}

// Decodes the rest of a part without writing past it. False if the stream ends first.
inline __attribute__((always_inline)) bool DecodeRest(const Entry* table, const CodeLengths& lengths,
                                                      const uint8_t* input_end, Lane* lane) {
  BitReader reader = lane->reader;
  uint8_t* out = lane->end;
  while (out - lane->begin >= 8) {
    const Entry entry = table[reader.bits >> (64 - kMaxCodeBits)];
    reader.bits <<= entry & 63;
    StoreLittleEndian(entry, out - 8);
    out -= CodesIn(entry);
    if (!reader.Advance(input_end)) return false;
  }
  while (out != lane->begin) {
    const uint8_t byte = FirstByteIn(table[reader.bits >> (64 - kMaxCodeBits)]);
    *--out = byte;
    reader.bits <<= lengths[byte];
    if (!reader.Advance(input_end)) return false;
  }
  lane->reader = reader;
  return true;
}

// Decodes the first `kLanes` streams in turn until one is nearly at its end, then the others: with `kShort` one by one,
// in a tenth of the code.
template <bool kShort, int kLanes>
inline __attribute__((always_inline)) void DecodeLanes(const Entry* table, const uint8_t* input_end, Lane** lanes) {
  DecodeRounds<kLanes, 5>(table, input_end, lanes);
  if constexpr (kShort) {
    for (int i = 0; i < kLanes; ++i) DecodeRounds<1, 5>(table, input_end, lanes + i);
  } else if constexpr (kLanes > 1) {
    int least = 0;
    for (int i = 1; i < kLanes; ++i) {
      if (lanes[i]->left() < lanes[least]->left()) least = i;
    }
    std::swap(lanes[least], lanes[kLanes - 1]);
    DecodeLanes<kShort, kLanes - 1>(table, input_end, lanes);
  }
}

template <bool kShort>
inline __attribute__((always_inline)) bool DecodeParts(const Entry* table, const CodeLengths& lengths,
                                                       const uint8_t* input_end, Lanes* lanes) {
  Lane* order[kHuffmanStreams];
  for (int i = 0; i < kHuffmanStreams; ++i) order[i] = &(*lanes)[i];
  DecodeLanes<kShort, kHuffmanStreams>(table, input_end, order);
  DecodeRounds<kHuffmanStreams, 1>(table, input_end, order);
  for (Lane& lane : *lanes) {
    if (!DecodeRest(table, lengths, input_end, &lane)) return false;
  }
  return true;
}

struct Functions {
  void (*make_table)(const CodeLengths& lengths, Entry* small, Entry* table);
  // False if a stream ends before its codes.
  bool (*decode)(const Entry* table, const CodeLengths& lengths, const uint8_t* input_end, Lanes* lanes);
};

// Compiled with and without BMI2, whose instructions shift by any register and count zeros.
#define CASK_FUNCTIONS(name, is_short, ...)                                                                  \
  struct name {                                                                                              \
    __VA_ARGS__ static void Make(const CodeLengths& lengths, Entry* small, Entry* table) {                   \
      MakeTable(lengths, small, table);                                                                      \
    }                                                                                                        \
    __VA_ARGS__ static bool Decode(const Entry* table, const CodeLengths& lengths, const uint8_t* input_end, \
                                   Lanes* lanes) {                                                           \
      return DecodeParts<is_short>(table, lengths, input_end, lanes);                                        \
    }                                                                                                        \
  };
#if defined(__x86_64__)
CASK_FUNCTIONS(Anywhere, true)  // few processors are without AVX2
CASK_FUNCTIONS(OnAvx2, false, __attribute__((target("avx2,bmi,bmi2"))))
#else
CASK_FUNCTIONS(Anywhere, false)
#endif
#undef CASK_FUNCTIONS

Functions FindFunctions() {
#if defined(__x86_64__)
  if (GetCpuFeatures().avx2) return {OnAvx2::Make, OnAvx2::Decode};
#endif
  return {Anywhere::Make, Anywhere::Decode};
}

// The part of a plane before its streams.
struct Header {
  int unit_log = 0;
  int num_tables = 0;
  std::array<CodeLengths, kMaxHuffmanTables> tables;
  absl::string_view runs;
  std::array<absl::string_view, kHuffmanStreams> streams;
};

// Removes the lengths of one table from the front of `coded`.
absl::StatusOr<CodeLengths> ConsumeCodeLengths(int index, absl::string_view* coded) {
  if (coded->size() < 2) return Bad("end in table ", index);
  const int first = static_cast<uint8_t>((*coded)[0]);
  const int last = static_cast<uint8_t>((*coded)[1]);
  if (first > last) return Bad("table ", index, " goes from byte ", first, " to ", last);
  const size_t bytes = (last - first + 2) / 2;
  if (coded->size() - 2 < bytes) return Bad("end in table ", index);
  CodeLengths lengths = {};
  for (int i = 0; i <= last - first; ++i) {
    lengths[first + i] = static_cast<uint8_t>((*coded)[2 + i / 2]) >> (i % 2 * 4) & 0xf;
  }
  if ((last - first) % 2 == 0 && static_cast<uint8_t>((*coded)[1 + bytes]) >> 4 != 0) {
    return Bad("bits are set past the end of table ", index);
  }
  if (!IsCompleteCode(lengths))
    return Bad("table ", index, " is not a code of ", kMinCodeBits, " to ", kMaxCodeBits, " bits");
  coded->remove_prefix(2 + bytes);
  return lengths;
}

absl::StatusOr<Header> ParseHeader(absl::string_view coded) {
  if (coded.size() < kHuffmanHeaderBytes) return Bad("have ", coded.size(), " bytes, too few for a header");
  Header header;
  header.num_tables = static_cast<uint8_t>(coded[0]);
  if (header.num_tables < 1 || header.num_tables > kMaxHuffmanTables) {
    return Bad("have ", header.num_tables, " tables; 1 to ", kMaxHuffmanTables, " are possible");
  }
  header.unit_log = static_cast<uint8_t>(coded[1]);
  if (header.unit_log < kMinUnitLog || header.unit_log > kMaxUnitLog) {
    return Bad("have units of 2^", header.unit_log, " bytes; 2^", kMinUnitLog, " to 2^", kMaxUnitLog, " are possible");
  }
  const size_t runs_bytes = LoadLittleEndian<uint16_t>(coded.data() + 2);
  std::array<size_t, kHuffmanStreams - 1> sizes;
  for (int i = 0; i < kHuffmanStreams - 1; ++i) sizes[i] = LoadLittleEndian<uint32_t>(coded.data() + 4 + size_t{4} * i);
  coded.remove_prefix(kHuffmanHeaderBytes);
  if (runs_bytes > coded.size()) return Bad("have ", runs_bytes, " runs; ", coded.size(), " bytes are left");
  header.runs = coded.substr(0, runs_bytes);
  coded.remove_prefix(runs_bytes);
  for (int i = 0; i < header.num_tables; ++i) {
    CASK_ASSIGN_OR_RETURN(header.tables[i], ConsumeCodeLengths(i, &coded));
  }
  for (int i = 0; i < kHuffmanStreams - 1; ++i) {
    if (sizes[i] > coded.size()) return Bad("stream ", i, " has ", sizes[i], " bytes; ", coded.size(), " are left");
    header.streams[i] = coded.substr(0, sizes[i]);
    coded.remove_prefix(sizes[i]);
  }
  header.streams[kHuffmanStreams - 1] = coded;
  return header;
}

using TableBytes = std::array<size_t, kMaxHuffmanTables>;  // the bytes of the plane that use each table

struct Run {
  int table = 0;
  size_t bytes = 0;
};

// The bytes of run `i`, of the `left` bytes from its beginning to the end of the plane.
Run RunAt(const Header& header, size_t i, size_t left) {
  const auto run = static_cast<uint8_t>(header.runs[i]);
  return {run >> 4, std::min(left, size_t{(run & 0xfu) + 1} << header.unit_log)};
}

absl::StatusOr<TableBytes> CountTableBytes(const Header& header, size_t plane_bytes) {
  TableBytes bytes = {};
  size_t left = plane_bytes;
  for (size_t i = 0; i < header.runs.size(); ++i) {
    const size_t whole_units = static_cast<uint8_t>(header.runs[i]) & 0xf;  // all but its last
    if (left <= whole_units << header.unit_log)
      return Bad("run ", i, " leaves the ", plane_bytes, " bytes of the plane");
    const Run run = RunAt(header, i, left);
    if (run.table >= header.num_tables) return Bad("run ", i, " has table ", run.table, " of ", header.num_tables);
    bytes[run.table] += run.bytes;
    left -= run.bytes;
  }
  if (left != 0) return Bad("runs have ", plane_bytes - left, " bytes; the plane has ", plane_bytes);
  return bytes;
}

// Moves the bytes from the order of tables to the order of runs.
void PutBack(const Header& header, const TableBytes& bytes, const uint8_t* ordered, absl::Span<char> out) {
  std::array<const uint8_t*, kMaxHuffmanTables> from;
  for (int i = 0; i < kMaxHuffmanTables; ordered += bytes[i++]) from[i] = ordered;
  for (size_t i = 0; i < header.runs.size(); ++i) {
    const Run run = RunAt(header, i, out.size());
    std::memcpy(out.data(), from[run.table], run.bytes);
    from[run.table] += run.bytes;
    out.remove_prefix(run.bytes);
  }
}

// True if all of the stream was used, except for bits of its last byte, which are 0.
absl::Status CheckEnd(int index, absl::string_view stream, const BitReader& reader) {
  const size_t whole = reader.at - reinterpret_cast<const uint8_t*>(stream.data());
  const size_t bits = 8 * whole + reader.used();
  if ((bits + 7) / 8 != stream.size()) {
    return Bad("stream ", index, " has ", stream.size(), " bytes; its codes take ", (bits + 7) / 8);
  }
  if (bits % 8 != 0 && static_cast<uint8_t>(static_cast<uint8_t>(stream.back()) << (bits % 8)) != 0) {
    return Bad("bits are set past the end of stream ", index);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status HuffmanDecoder::Decode(absl::string_view coded, absl::Span<char> out) {
  CASK_ASSIGN_OR_RETURN(const Header header, ParseHeader(coded));
  CASK_ASSIGN_OR_RETURN(const TableBytes bytes, CountTableBytes(header, out.size()));
  constexpr size_t kTablesBytes = (kTableEntries + kSmallTablesEntries) * sizeof(Entry);
  const bool is_ordered =
      header.num_tables > 1;  // decoded to the bytes of the first table, then those of the second, and so on
  CASK_RETURN_IF_ERROR(memory_.Reserve(kTablesBytes + (is_ordered ? out.size() : 0)));
  const auto table = reinterpret_cast<Entry*>(memory_.data());
  uint8_t* const ordered = is_ordered ? memory_.bytes() + kTablesBytes : reinterpret_cast<uint8_t*>(out.data());

  const auto* const input_end = reinterpret_cast<const uint8_t*>(coded.data()) + coded.size();
  Lanes lanes;
  for (int i = 0; i < kHuffmanStreams; ++i) {
    lanes[i].reader.at = reinterpret_cast<const uint8_t*>(header.streams[i].data());
    lanes[i].reader.Load(input_end);
  }
  const Functions functions = FindFunctions();
  uint8_t* begin = ordered;
  for (int i = 0; i < header.num_tables; ++i) {
    if (bytes[i] == 0) continue;
    functions.make_table(header.tables[i], table + kTableEntries, table);
    const StreamParts parts(bytes[i]);
    for (int k = 0; k < kHuffmanStreams; ++k) {
      lanes[k].begin = begin + parts.begin(k);
      lanes[k].end = begin + parts.end(k);
    }
    if (!functions.decode(table, header.tables[i], input_end, &lanes)) return Bad("a stream ends before its codes");
    begin += bytes[i];
  }
  for (int i = 0; i < kHuffmanStreams; ++i) CASK_RETURN_IF_ERROR(CheckEnd(i, header.streams[i], lanes[i].reader));
  if (is_ordered) PutBack(header, bytes, ordered, out);
  return absl::OkStatus();
}

}  // namespace tensorcask::payload
