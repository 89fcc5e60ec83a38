// Huffman codes of bytes (FORMAT.md section 3.1) of 2 to 11 bits: a table of 2,048 entries then decodes any 11 bits,
// and these never hold more than 5 codes.
//
//   CodeLengths lengths = MakeCodeLengths(counts);        // short for frequent bytes
//   std::array<uint16_t, 256> codes = CodesOf(lengths);   // the first bit is the highest of lengths[byte] bits

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CODEC_HUFFMAN_CODE_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CODEC_HUFFMAN_CODE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tensorcask::payload {

constexpr int kMinCodeBits = 2;
constexpr int kMaxCodeBits = 11;

// The header of a plane of Huffman codes (FORMAT.md section 3.1).
constexpr size_t kHuffmanHeaderBytes = 24;
constexpr int kHuffmanStreams = 6;
constexpr int kMaxHuffmanTables = 16;
constexpr int kMinUnitLog = 8;
constexpr int kMaxUnitLog = 16;
constexpr int kMaxRunUnits = 16;  // a run is a byte: units - 1 in bits 0 to 3, the table in bits 4 to 7

// The bytes of one table are divided into six parts, one for each stream. The last parts may be shorter or empty.
class StreamParts {
 public:
  explicit StreamParts(size_t bytes) : bytes_(bytes), part_((bytes + kHuffmanStreams - 1) / kHuffmanStreams) {}
  size_t begin(int i) const { return std::min(bytes_, static_cast<size_t>(i) * part_); }
  size_t end(int i) const { return begin(i + 1); }
  size_t size(int i) const { return end(i) - begin(i); }

 private:
  size_t bytes_;
  size_t part_;
};

using ByteCounts = std::array<uint32_t, 256>;
using CodeLengths = std::array<uint8_t, 256>;  // in bits; 0 is a byte without a code

// The lengths of a complete code. Every byte with a count has a code; if these are fewer than 4, some other bytes have
// codes too. Requires: the counts sum up to less than 2^32.
CodeLengths MakeCodeLengths(const ByteCounts& counts);

// True if the lengths are those of a complete code.
bool IsCompleteCode(const CodeLengths& lengths);

// Bytes that have a code, in the order of their codes: by length, then by value. Returns how many.
int BytesInCodeOrder(const CodeLengths& lengths, std::array<uint8_t, 256>* bytes);

// Codes in that order, counted up from 0. Requires: IsCompleteCode(lengths).
std::array<uint16_t, 256> CodesOf(const CodeLengths& lengths);

// In a file: the first and the last byte that has a code, and 4 bits for each from one to the other.
size_t CodeLengthsBytes(const CodeLengths& lengths);
size_t WriteCodeLengths(const CodeLengths& lengths, char* out);  // returns CodeLengthsBytes

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_HUFFMAN_CODE_H_
