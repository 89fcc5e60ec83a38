#include "tensorcask/serialize/payload/codec/huffman_code.h"

#include <algorithm>

#include "tensorcask/tensor/base/check.h"

namespace tensorcask::payload {
namespace {

constexpr int kAll = 1 << kMaxCodeBits;  // the sum of the parts of a complete code

int PartOf(int length) { return kAll >> length; }

// The code lengths that Huffman's algorithm gives `n` ascending weights, without a limit of the length.
void HuffmanLengths(const std::array<uint64_t, 256>& weights, int n, std::array<int, 256>* lengths) {
  // Nodes: first the weights, then the sums of two nodes in the order of their creation, which is ascending, too.
  std::array<uint64_t, 512> weight;
  std::array<int, 512> parent;
  std::array<int, 512> depth;
  std::copy_n(weights.begin(), n, weight.begin());
  int next_leaf = 0;
  int next_sum = n;
  const int root = 2 * n - 2;
  for (int node = n; node <= root; ++node) {
    weight[node] = 0;
    for (int child = 0; child < 2; ++child) {
      const bool is_leaf = next_leaf < n && (next_sum >= node || weight[next_leaf] <= weight[next_sum]);
      const int lightest = is_leaf ? next_leaf++ : next_sum++;
      weight[node] += weight[lightest];
      parent[lightest] = node;
    }
  }
  depth[root] = 0;
  for (int node = root - 1; node >= 0; --node) depth[node] = depth[parent[node]] + 1;
  std::copy_n(depth.begin(), n, lengths->begin());
}

struct Range {
  int first = 0, last = 0;
};

// The range from the first to the last byte that has a code.
Range RangeOf(const CodeLengths& lengths) {
  Range range{0, 255};
  while (range.first < 255 && lengths[range.first] == 0) ++range.first;
  while (range.last > range.first && lengths[range.last] == 0) --range.last;
  return range;
}

}  // namespace

CodeLengths MakeCodeLengths(const ByteCounts& counts) {
  std::array<uint8_t, 256> bytes;  // from the rarest to the most frequent
  int n = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (counts[byte] != 0) bytes[n++] = static_cast<uint8_t>(byte);
  }
  // Bytes near the first one, so that the lengths take little space.
  for (int byte = n == 0 ? 0 : std::max(0, bytes[0] - 3); n < PartOf(0) / PartOf(kMinCodeBits); ++byte) {
    if (counts[byte] == 0) bytes[n++] = static_cast<uint8_t>(byte);
  }
  std::sort(bytes.begin(), bytes.begin() + n,
            [&counts](uint8_t a, uint8_t b) { return counts[a] != counts[b] ? counts[a] < counts[b] : a > b; });
  std::array<uint64_t, 256> weights;
  for (int i = 0; i < n; ++i) weights[i] = counts[bytes[i]];
  std::array<int, 256> lengths;
  HuffmanLengths(weights, n, &lengths);

  int sum = 0;
  for (int i = 0; i < n; ++i) {
    lengths[i] = std::clamp(lengths[i], kMinCodeBits, kMaxCodeBits);
    sum += PartOf(lengths[i]);
  }
  // Shortening the longest codes made the sum too large. Lengthen the longest codes that can still grow, the rarest
  // bytes first.
  for (int length = kMaxCodeBits - 1; sum > kAll; --length) {
    for (int i = 0; i < n && sum > kAll; ++i) {
      if (lengths[i] != length) continue;
      sum -= PartOf(length) - PartOf(length + 1);
      ++lengths[i];
    }
  }
  // Give the remainder to the most frequent bytes: shortening a code by one bit doubles its part of the sum.
  while (sum < kAll) {
    for (int i = n - 1; i >= 0; --i) {
      if (lengths[i] == kMinCodeBits || PartOf(lengths[i]) > kAll - sum) continue;
      sum += PartOf(lengths[i]);
      --lengths[i];
    }
  }
  CodeLengths result = {};
  for (int i = 0; i < n; ++i) result[bytes[i]] = static_cast<uint8_t>(lengths[i]);
  return result;
}

bool IsCompleteCode(const CodeLengths& lengths) {
  int sum = 0;
  for (const uint8_t length : lengths) {
    if (length == 0) continue;
    if (length < kMinCodeBits || length > kMaxCodeBits) return false;
    sum += PartOf(length);
  }
  return sum == kAll;
}

int BytesInCodeOrder(const CodeLengths& lengths, std::array<uint8_t, 256>* bytes) {
  std::array<int, kMaxCodeBits + 2> first = {};  // the first index of each length
  for (const uint8_t length : lengths) {
    if (length != 0) ++first[length + 1];
  }
  for (int length = 1; length <= kMaxCodeBits + 1; ++length) first[length] += first[length - 1];
  const int n = first[kMaxCodeBits + 1];
  for (int byte = 0; byte < 256; ++byte) {
    if (lengths[byte] != 0) (*bytes)[first[lengths[byte]]++] = static_cast<uint8_t>(byte);
  }
  return n;
}

std::array<uint16_t, 256> CodesOf(const CodeLengths& lengths) {
  CASK_CHECK(IsCompleteCode(lengths), "CodesOf: no complete code");
  std::array<uint8_t, 256> bytes;
  const int n = BytesInCodeOrder(lengths, &bytes);
  std::array<uint16_t, 256> codes = {};
  int next = 0;  // as if of the largest length
  for (int i = 0; i < n; ++i) {
    const int length = lengths[bytes[i]];
    codes[bytes[i]] = static_cast<uint16_t>(next >> (kMaxCodeBits - length));
    next += PartOf(length);
  }
  return codes;
}

size_t CodeLengthsBytes(const CodeLengths& lengths) {
  const Range range = RangeOf(lengths);
  return 2 + (range.last - range.first + 2) / 2;
}

size_t WriteCodeLengths(const CodeLengths& lengths, char* out) {
  const Range range = RangeOf(lengths);
  char* at = out;
  *at++ = static_cast<char>(range.first);
  *at++ = static_cast<char>(range.last);
  for (int byte = range.first; byte <= range.last; byte += 2) {
    const int high = byte < range.last ? lengths[byte + 1] : 0;
    *at++ = static_cast<char>(lengths[byte] | high << 4);
  }
  return at - out;
}

}  // namespace tensorcask::payload
