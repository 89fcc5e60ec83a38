#include "tensorcask/serialize/checkpoint/format/slice_key.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::checkpoint {
namespace {

using Extent = TensorSlice::Extent;

constexpr char kEscape00[] = {'\x00', '\xff'};
constexpr char kEscapeFf[] = {'\xff', '\x00'};
constexpr char kEndOfString[] = {'\x00', '\x01'};
constexpr absl::string_view kSpecial("\x00\xff", 2);

absl::string_view Two(const char (&bytes)[2]) { return {bytes, 2}; }

int BitWidth(uint64_t value) { return value == 0 ? 0 : 64 - __builtin_clzll(value); }

// The low `count` bytes of `value`, most significant first.
void AppendBigEndian(uint64_t value, int count, std::string* out) {
  for (int i = count - 1; i >= 0; --i) out->push_back(static_cast<char>(value >> (8 * i)));
}

void AppendNumber(uint64_t value, std::string* out) {
  const int count = (BitWidth(value) + 7) / 8;
  out->push_back(static_cast<char>(count));
  AppendBigEndian(value, count, out);
}

void AppendString(absl::string_view text, std::string* out) {
  while (true) {
    const size_t plain = text.find_first_of(kSpecial);
    out->append(text.data(), plain == absl::string_view::npos ? text.size() : plain);
    if (plain == absl::string_view::npos) break;
    const absl::string_view escape = text[plain] == '\0' ? Two(kEscape00) : Two(kEscapeFf);
    out->append(escape.data(), escape.size());
    text.remove_prefix(plain + 1);
  }
  out->append(kEndOfString, sizeof(kEndOfString));
}

// n bytes for [-2^(7n-1), 2^(7n-1)): n ones, a zero and the two's complement of 7n-1 bits. For a negative number the
// ones and the zero are inverted, too. 80 bits in all for the longest.
void AppendSigned(int64_t value, std::string* out) {
  const bool negative = value < 0;
  const uint64_t magnitude = static_cast<uint64_t>(negative ? ~value : value);
  const int length = BitWidth(magnitude) / 7 + 1;
  char bytes[10] = {};
  for (int i = 0; i < 8; ++i) bytes[2 + i] = static_cast<char>(magnitude >> (8 * (7 - i)));
  char* const begin = bytes + sizeof(bytes) - length;
  for (int bit = 0; bit < length; ++bit) begin[bit / 8] = static_cast<char>(begin[bit / 8] | 0x80 >> (bit % 8));
  if (negative) {
    for (char& byte : bytes) byte = static_cast<char>(~byte);
  }
  out->append(begin, static_cast<size_t>(length));
}

// Each of these decodes the front of *key and moves *key past it. False if the code is cut short or not valid. The
// caller checks that a code is the one that an encoder writes.
bool ConsumeNumber(absl::string_view* key, uint64_t* value) {
  if (key->empty()) return false;
  const auto count = static_cast<size_t>(static_cast<uint8_t>(key->front()));
  key->remove_prefix(1);
  if (count > sizeof(*value) || count > key->size()) return false;
  *value = 0;
  for (size_t i = 0; i < count; ++i) *value = *value << 8 | static_cast<uint8_t>((*key)[i]);
  key->remove_prefix(count);
  return true;
}

bool ConsumeString(absl::string_view* key, std::string* text) {
  while (true) {
    const size_t plain = key->find_first_of(kSpecial);
    if (plain == absl::string_view::npos || key->size() - plain < 2) return false;
    text->append(key->data(), plain);
    const absl::string_view pair = key->substr(plain, 2);
    key->remove_prefix(plain + 2);
    if (pair == Two(kEndOfString)) return true;
    if (pair != Two(kEscape00) && pair != Two(kEscapeFf)) return false;
    text->push_back(pair[0]);
  }
}

bool ConsumeSigned(absl::string_view* key, int64_t* value) {
  if (key->empty()) return false;
  const bool negative = static_cast<uint8_t>(key->front()) < 0x80;
  const auto byte_at = [&](size_t i) -> uint8_t {
    const auto byte = static_cast<uint8_t>((*key)[i]);
    return negative ? static_cast<uint8_t>(~byte) : byte;
  };
  size_t length = 0;
  while (length < 10 && length / 8 < key->size() && (byte_at(length / 8) << (length % 8) & 0x80) != 0) ++length;
  if (length == 0 || length > key->size()) return false;
  uint64_t magnitude = 0;
  for (size_t i = 0; i < length; ++i) magnitude = magnitude << 8 | byte_at(i);
  // In up to nine bytes, the last 7 x length - 1 bits are the number; in ten, the last 64, of which the first is 0.
  if (length < 10) magnitude &= (uint64_t{1} << (7 * length - 1)) - 1;
  if (magnitude > INT64_MAX) return false;
  *value = negative ? ~static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
  key->remove_prefix(length);
  return true;
}

absl::Status InvalidKey(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the key of a slice has ", what));
}

}  // namespace

std::string EncodeSliceKey(absl::string_view name, const TensorSlice& slice) {
  std::string key;
  AppendNumber(0, &key);
  AppendString(name, &key);
  AppendNumber(static_cast<uint64_t>(slice.rank()), &key);
  for (int axis = 0; axis < slice.rank(); ++axis) {
    const Extent& extent = slice.extent(axis);
    AppendSigned(extent.start, &key);
    AppendSigned(extent.length, &key);
  }
  return key;
}

absl::StatusOr<SliceKey> DecodeSliceKey(absl::string_view key) {
  absl::string_view rest = key;
  SliceKey result;
  uint64_t zero = 0;
  uint64_t rank = 0;
  if (!ConsumeNumber(&rest, &zero) || zero != 0) return InvalidKey("no 0 at its start");
  if (!ConsumeString(&rest, &result.name)) return InvalidKey("a name that does not end");
  if (!ConsumeNumber(&rest, &rank)) return InvalidKey("no rank");
  if (rank > size_t{TensorShape::kMaxRank}) {
    return InvalidKey(absl::StrCat("rank ", rank, "; at most ", TensorShape::kMaxRank, " is possible"));
  }
  absl::InlinedVector<Extent, 4> extents;
  for (uint64_t axis = 0; axis < rank; ++axis) {
    Extent extent;
    if (!ConsumeSigned(&rest, &extent.start) || !ConsumeSigned(&rest, &extent.length)) {
      return InvalidKey(absl::StrCat("no start and length for axis ", axis, " of ", rank));
    }
    extents.push_back(extent);
  }
  absl::StatusOr<TensorSlice> slice = TensorSlice::Create(extents);
  if (!slice.ok()) return InvalidKey(absl::StrCat("an invalid slice: ", slice.status().message()));
  result.slice = *std::move(slice);
  // One name and slice have one key: otherwise two keys of the index could name the same piece.
  if (EncodeSliceKey(result.name, result.slice) != key)
    return InvalidKey("bytes that are not those of its name and slice");
  return result;
}

}  // namespace tensorcask::checkpoint
