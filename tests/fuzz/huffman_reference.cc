#include "tensorcask/tests/fuzz/huffman_reference.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tensorcask/serialize/payload/codec/huffman_code.h"

namespace tensorcask::testing {
namespace {

using Codes = std::map<std::string, char>;  // codes are texts of '0' and '1'

size_t Byte(absl::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

std::string Bits(absl::string_view bytes) {
  std::string bits;
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 7; bit >= 0; --bit) bits += (Byte(bytes, i) >> bit & 1) != 0 ? '1' : '0';
  }
  return bits;
}

// Removes a table from the front.
std::optional<Codes> TakeTable(absl::string_view* bytes) {
  if (bytes->size() < 2) return std::nullopt;
  const size_t first = Byte(*bytes, 0);
  const size_t last = Byte(*bytes, 1);
  if (first > last) return std::nullopt;
  const size_t size = 2 + (last - first + 2) / 2;
  if (bytes->size() < size) return std::nullopt;
  std::vector<size_t> lengths;
  for (size_t i = 2; i < size; ++i) {
    lengths.push_back(Byte(*bytes, i) % 16);
    lengths.push_back(Byte(*bytes, i) / 16);
  }
  if (lengths.size() > last - first + 1) {
    if (lengths.back() != 0) return std::nullopt;
    lengths.pop_back();
  }
  bytes->remove_prefix(size);
  Codes codes;
  double sum = 0;
  uint32_t next = 0;  // the next code, of 11 bits
  for (size_t length = 1; length < 16; ++length) {
    for (size_t i = 0; i < lengths.size(); ++i) {
      if (lengths[i] != length) continue;
      if (length < 2 || length > 11) return std::nullopt;
      sum += 1.0 / static_cast<double>(1 << length);
      if (sum > 1) return std::nullopt;
      std::string code;
      for (size_t bit = 0; bit < length; ++bit) code += (next >> (10 - bit) & 1) != 0 ? '1' : '0';
      codes[code] = static_cast<char>(first + i);
      next += 1 << (11 - length);
    }
  }
  if (sum != 1) return std::nullopt;
  return codes;
}

}  // namespace

std::optional<std::string> DecodeHuffmanByTheBook(absl::string_view coded, size_t plane_bytes) {
  if (coded.size() < 24) return std::nullopt;
  const size_t num_tables = Byte(coded, 0);
  const size_t unit_log = Byte(coded, 1);
  if (num_tables < 1 || num_tables > 16 || unit_log < 8 || unit_log > 16) return std::nullopt;
  const size_t num_runs = Byte(coded, 2) + 256 * Byte(coded, 3);
  std::vector<size_t> sizes;
  for (size_t at = 4; at < 24; at += 4) {
    sizes.push_back(Byte(coded, at) + (Byte(coded, at + 1) << 8) + (Byte(coded, at + 2) << 16) +
                    (Byte(coded, at + 3) << 24));
  }
  coded.remove_prefix(24);
  if (coded.size() < num_runs) return std::nullopt;
  // Places of the plane by table.
  std::vector<std::vector<size_t>> places(16);
  size_t at = 0;
  for (size_t i = 0; i < num_runs; ++i) {
    for (size_t unit = 0; unit <= Byte(coded, i) % 16; ++unit) {
      if (at >= plane_bytes) return std::nullopt;
      for (size_t k = 0; k < size_t{1} << unit_log && at < plane_bytes; ++k)
        places[Byte(coded, i) / 16].push_back(at++);
    }
  }
  if (at != plane_bytes) return std::nullopt;
  for (size_t i = num_tables; i < 16; ++i) {
    if (!places[i].empty()) return std::nullopt;
  }
  coded.remove_prefix(num_runs);
  std::vector<Codes> tables;
  for (size_t i = 0; i < num_tables; ++i) {
    std::optional<Codes> codes = TakeTable(&coded);
    if (!codes) return std::nullopt;
    tables.push_back(*std::move(codes));
  }
  std::vector<std::string> streams;
  for (const size_t size : sizes) {
    if (coded.size() < size) return std::nullopt;
    streams.push_back(Bits(coded.substr(0, size)));
    coded.remove_prefix(size);
  }
  streams.push_back(Bits(coded));

  std::string plane(plane_bytes, '\0');
  std::vector<size_t> used(6, 0);
  for (size_t i = 0; i < num_tables; ++i) {
    const size_t n = places[i].size();
    const size_t part = (n + 5) / 6;
    for (size_t k = 0; k < 6; ++k) {
      const size_t begin = std::min(n, k * part);
      for (size_t place = std::min(n, begin + part); place > begin; --place) {
        std::string code;
        while (tables[i].count(code) == 0) {
          if (used[k] == streams[k].size()) return std::nullopt;
          code += streams[k][used[k]++];
        }
        plane[places[i][place - 1]] = tables[i][code];
      }
    }
  }
  for (size_t k = 0; k < 6; ++k) {
    if (streams[k].size() - used[k] >= 8) return std::nullopt;
    if (streams[k].find('1', used[k]) != std::string::npos) return std::nullopt;
  }
  return plane;
}

payload::HuffmanPlan PlanByHand(absl::string_view plane, absl::string_view tables) {
  payload::HuffmanPlan plan;
  plan.unit_log = 8;
  std::vector<payload::ByteCounts> counts;
  std::vector<int> number_of(16, -1);  // as tables come up
  for (size_t at = 0, unit = 0; at < plane.size(); at += 256, ++unit) {
    int& number = number_of[Byte(tables, unit % tables.size()) % 16];
    if (number < 0) {
      number = static_cast<int>(counts.size());
      counts.push_back({});
    }
    for (const char byte : plane.substr(at, 256)) ++counts[number][static_cast<uint8_t>(byte)];
    if (plan.runs.empty() || plan.runs.back().table != number || plan.runs.back().units == payload::kMaxRunUnits) {
      plan.runs.push_back({0, number});
    }
    ++plan.runs.back().units;
  }
  plan.bytes = payload::kHuffmanHeaderBytes + payload::kHuffmanStreams + plan.runs.size() + plane.size() * 11 / 8 + 1;
  for (const payload::ByteCounts& count : counts) {
    plan.tables.push_back(payload::MakeCodeLengths(count));
    plan.bytes += payload::CodeLengthsBytes(plan.tables.back());
  }
  return plan;
}

}  // namespace tensorcask::testing
