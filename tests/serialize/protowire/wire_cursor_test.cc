// WireCursor, compared with WireReader: the same fields of the same bytes, or both refuse them.

#include "tensorcask/serialize/protowire/wire_cursor.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/tensor/base/varint.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;

struct Read {
  uint32_t number;
  WireType type;
  uint64_t value;
  std::string bytes;
  friend bool operator==(const Read& a, const Read& b) {
    return a.number == b.number && a.type == b.type && a.value == b.value && a.bytes == b.bytes;
  }
};

// All fields, with their contents; false after an error.
bool ByCursor(const std::string& message, std::vector<Read>* fields) {
  const auto source = MakeMemorySource("m", message);
  WireCursor cursor(source.get());
  while (cursor.position() < message.size()) {
    WireCursor::Field field;
    if (!cursor.ReadField(message.size(), &field).ok()) return false;
    std::string bytes(field.size, '\0');
    if (!cursor.ReadBytes(absl::MakeSpan(bytes)).ok()) return false;
    EXPECT_EQ(cursor.position(), field.end());
    fields->push_back({field.number, field.type, field.value, bytes});
  }
  return true;
}

bool ByReader(const std::string& message, std::vector<Read>* fields) {
  WireReader reader(message);
  for (WireReader::Field field; reader.Next(&field);) {
    if (field.type == WireType::kGroup) return false;  // the cursor refuses groups
    fields->push_back({field.number, field.type, field.value, std::string(field.bytes)});
  }
  return reader.status().ok();
}

std::string RandomMessage(std::mt19937_64* random, size_t longest) {
  std::string message;
  const uint64_t count = 1 + (*random)() % 8;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t number = 1 + ((*random)() >> ((*random)() % 64)) % 100'000;
    switch ((*random)() % 4) {
      case 0:
        AppendVarint(number << 3, &message);
        AppendVarint((*random)() >> ((*random)() % 64), &message);
        break;
      case 1:
        AppendVarint(number << 3 | 1, &message);
        message += std::string(8, 'd');
        break;
      case 2:
        AppendVarint(number << 3 | 5, &message);
        message += std::string(4, 'f');
        break;
      default: {
        const size_t size = (*random)() % longest;
        AppendVarint(number << 3 | 2, &message);
        AppendVarint(size, &message);
        message += std::string(size, 'b');
      }
    }
  }
  return message;
}

TEST(WireCursor, ReadsWhatWireReaderReads) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string message = RandomMessage(&random, round % 10 == 0 ? 100'000 : 20);
    if (round % 2 == 1) message[random() % message.size()] = static_cast<char>(random());
    if (round % 3 == 1) message.resize(random() % (message.size() + 1));
    std::vector<Read> by_cursor;
    std::vector<Read> by_reader;
    const bool cursor_ok = ByCursor(message, &by_cursor);
    const bool reader_ok = ByReader(message, &by_reader);
    // WireReader refuses lengths that are longer than they need to be; the cursor may read on.
    EXPECT_TRUE(!reader_ok || (cursor_ok && by_cursor == by_reader)) << round;
  }
}

TEST(WireCursor, EntersAndSkipsLongFields) {
  std::string inner;
  for (int i = 0; i < 10; ++i) {
    AppendVarint(1 << 3 | 2, &inner);
    AppendVarint(50'000, &inner);
    inner += std::string(50'000, static_cast<char>('a' + i));
  }
  std::string message;
  AppendVarint(7 << 3 | 2, &message);
  AppendVarint(inner.size(), &message);
  message += inner;
  AppendVarint(2 << 3, &message);
  AppendVarint(300, &message);
  const auto source = MakeMemorySource("m", message);
  WireCursor cursor(source.get());
  WireCursor::Field outer;
  ASSERT_OK(cursor.ReadField(message.size(), &outer));
  int found = 0;
  while (cursor.position() < outer.end()) {
    WireCursor::Field field;
    ASSERT_OK(cursor.ReadField(outer.end(), &field));
    cursor.Seek(field.begin + 49'999);
    char last = 0;
    ASSERT_OK(cursor.ReadBytes(absl::MakeSpan(&last, 1)));
    EXPECT_EQ(last, 'a' + found++);
  }
  EXPECT_EQ(found, 10);
  WireCursor::Field number;
  ASSERT_OK(cursor.ReadField(message.size(), &number));
  EXPECT_EQ(number.value, 300u);
}

TEST(WireCursor, NamesThePositionOfAnError) {
  const auto error = [](const std::string& message) {
    const auto source = MakeMemorySource("m", message);
    WireCursor cursor(source.get());
    WireCursor::Field field;
    return cursor.ReadField(message.size(), &field);
  };
  const auto code = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(error("\x0a\x05"
                    "abc"),
              StatusIs(code, HasSubstr("a length of 5 with only 3 bytes left at byte 2")));
  EXPECT_THAT(error("\x0b"), StatusIs(code, HasSubstr("cut short")));
  EXPECT_THAT(error("\x0b\x0c"), StatusIs(code, HasSubstr("wire type 3")));
  EXPECT_THAT(error(std::string("\x00\x00", 2)), StatusIs(code, HasSubstr("field number 0")));
  EXPECT_THAT(error("\x08\xff"), StatusIs(code, HasSubstr("a varint that is cut short")));
  EXPECT_THAT(error("\x0d"
                    "ab"),
              StatusIs(code, HasSubstr("a 32-bit number that is cut short")));
  EXPECT_THAT(error(std::string("\x88\x80\x80\x80\x80\x00\x01", 7)),
              StatusIs(code, HasSubstr("tag of more than 5 bytes")));
}

}  // namespace
}  // namespace tensorcask
