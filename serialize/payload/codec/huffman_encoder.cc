#include "tensorcask/serialize/payload/codec/huffman_encoder.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "tensorcask/serialize/payload/codec/huffman_code.h"
#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::payload {
namespace {

// For each byte its code, from the highest bit on, and the length of the code. Both are as wide as registers, so that
// an instruction can load them.
struct CodeTable {
  std::array<uint64_t, 256> codes;
  std::array<uint64_t, 256> lengths;
};

void MakeTable(const CodeLengths& lengths, CodeTable* table) {
  const std::array<uint16_t, 256> codes = CodesOf(lengths);
  for (int i = 0; i < 256; ++i) {
    table->codes[i] = lengths[i] == 0 ? 0 : uint64_t{codes[i]} << (64 - lengths[i]);
    table->lengths[i] = lengths[i];
  }
}

// A stream of bits, the first one the highest of its byte.
struct BitWriter {
  uint64_t bits = 0;      // not written yet, from the highest on; the others are 0
  uint64_t num_bits = 0;  // less than 8 between calls
  uint8_t* at = nullptr;

  inline __attribute__((always_inline)) void Append(uint8_t byte, const CodeTable& table) {
    bits |= table.codes[byte] >> num_bits;
    num_bits += table.lengths[byte];
  }
  // Call after at most 5 codes. Writes 8 bytes; the incomplete ones are written again by the next call.
  inline __attribute__((always_inline)) void Flush() {
    StoreLittleEndian(__builtin_bswap64(bits), at);
    at += num_bits / 8;
    bits <<= num_bits & ~uint64_t{7};
    num_bits &= 7;
  }
};

// The codes of a part, its last byte first.
inline __attribute__((always_inline)) void AppendPartHere(const uint8_t* begin, const uint8_t* end,
                                                          const CodeTable& table, BitWriter* writer) {
  BitWriter to = *writer;
  for (; end - begin >= 5; end -= 5) {
    for (int i = 1; i <= 5; ++i) to.Append(end[-i], table);
    to.Flush();
  }
  for (; end != begin; --end) {
    to.Append(end[-1], table);
    to.Flush();
  }
  *writer = to;
}

using AppendPartFunction = void(const uint8_t* begin, const uint8_t* end, const CodeTable& table, BitWriter* writer);
#if defined(__x86_64__)
// Compiled with BMI2, whose instructions shift by any register.
__attribute__((target("bmi,bmi2"))) void AppendPartBmi(const uint8_t* begin, const uint8_t* end, const CodeTable& table,
                                                       BitWriter* writer) {
  AppendPartHere(begin, end, table, writer);
}
#endif
void AppendPart(const uint8_t* begin, const uint8_t* end, const CodeTable& table, BitWriter* writer) {
  AppendPartHere(begin, end, table, writer);
}

AppendPartFunction* FindAppendPart() {
#if defined(__x86_64__)
  if (GetCpuFeatures().avx2) return AppendPartBmi;
#endif
  return AppendPart;
}

// The runs of a plane from the last to the first.
class RunsBackwards {
 public:
  RunsBackwards(absl::string_view plane, const HuffmanPlan& plan)
      : plan_(plan), left_(plan.runs.size()), begin_(reinterpret_cast<const uint8_t*>(plane.data()) + plane.size()) {
    size_t whole = 0;  // the size the size if the last unit were whole whole
    for (const HuffmanPlan::Run& run : plan.runs) whole += size_t{1} * run.units << plan.unit_log;
    missing_ = whole - plane.size();
  }

  bool Next() {
    if (left_ == 0) return false;
    --left_;
    end_ = begin_;
    begin_ -= (size_t{1} * plan_.runs[left_].units << plan_.unit_log) - missing_;
    missing_ = 0;
    return true;
  }
  int table() const { return plan_.runs[left_].table; }
  const uint8_t* begin() const { return begin_; }
  const uint8_t* end() const { return end_; }

 private:
  const HuffmanPlan& plan_;
  size_t left_;
  size_t missing_ = 0;
  const uint8_t* begin_;
  const uint8_t* end_ = nullptr;
};

// All bytes of one table, in six parts. A part may have bytes of several runs.
void AppendTable(absl::string_view plane, const HuffmanPlan& plan, int table, BitWriter* writers) {
  size_t left = 0;
  for (RunsBackwards run(plane, plan); run.Next();) left += run.table() == table ? run.end() - run.begin() : 0;
  const StreamParts parts(left);
  CodeTable codes;
  MakeTable(plan.tables[table], &codes);
  AppendPartFunction* const append_part = FindAppendPart();
  int part = kHuffmanStreams - 1;
  for (RunsBackwards run(plane, plan); run.Next();) {
    if (run.table() != table) continue;
    for (const uint8_t* end = run.end(); end != run.begin();) {
      while (left == parts.begin(part)) --part;
      const size_t size = std::min<size_t>(end - run.begin(), left - parts.begin(part));
      append_part(end - size, end, codes, &writers[part]);
      end -= size;
      left -= size;
    }
  }
}

}  // namespace

absl::StatusOr<size_t> HuffmanEncoder::Encode(absl::string_view plane, const HuffmanPlan& plan, char* out) {
  // A stream has a sixth of the bytes of each table, rounded up.
  const size_t room = (plane.size() / kHuffmanStreams + plan.tables.size()) * kMaxCodeBits / 8 + 16;
  CASK_RETURN_IF_ERROR(memory_.Reserve(kHuffmanStreams * room));
  std::array<BitWriter, kHuffmanStreams> writers;
  for (int i = 0; i < kHuffmanStreams; ++i) writers[i].at = memory_.bytes() + i * room;
  const int num_tables = static_cast<int>(plan.tables.size());
  for (int table = 0; table < num_tables; ++table) AppendTable(plane, plan, table, writers.data());

  char* at = out;
  *at++ = static_cast<char>(plan.tables.size());
  *at++ = static_cast<char>(plan.unit_log);
  StoreLittleEndian(static_cast<uint16_t>(plan.runs.size()), at);
  at += 2;
  std::array<size_t, kHuffmanStreams> sizes;
  for (int i = 0; i < kHuffmanStreams; ++i) {
    sizes[i] = writers[i].at - (memory_.bytes() + i * room) + (writers[i].num_bits != 0 ? 1 : 0);
    if (i == kHuffmanStreams - 1) break;
    StoreLittleEndian(static_cast<uint32_t>(sizes[i]), at);
    at += 4;
  }
  for (const HuffmanPlan::Run& run : plan.runs) {
    *at++ = static_cast<char>((run.units - 1) | run.table << 4);
  }
  for (const CodeLengths& lengths : plan.tables) at += WriteCodeLengths(lengths, at);
  for (int i = 0; i < kHuffmanStreams; ++i) {
    std::memcpy(at, memory_.bytes() + i * room, sizes[i]);
    at += sizes[i];
  }
  return at - out;
}

}  // namespace tensorcask::payload
