// Arrays of structures with many fields: what is read of the file, and what the list may take.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/npy/npy_reader.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/serialize/npy/npz_reader.h"
#include "tensorcask/serialize/zip/zip_writer.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;
using Code = absl::StatusCode;

// Counts the bytes that are read.
class CountingSource final : public ByteSource {
 public:
  explicit CountingSource(std::string bytes) : bytes_(std::move(bytes)), source_(MakeMemorySource("a", bytes_)) {}
  const std::string& name() const override { return source_->name(); }
  uint64_t size_bytes() const override { return bytes_.size(); }
  absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const override {
    read_ += out.size();
    return source_->ReadAt(offset, out);
  }
  // Since the last call, in times of the file.
  double TakeTimesRead() { return static_cast<double>(read_.exchange(0)) / static_cast<double>(bytes_.size()); }

 private:
  const std::string bytes_;
  const std::shared_ptr<const ByteSource> source_;
  mutable std::atomic<uint64_t> read_{0};
};

std::string NpyOf(const std::string& descr, const std::string& shape, const std::string& data,
                  const std::string& order = "False") {
  const std::string text = absl::StrCat("{'descr': ", descr, ", 'fortran_order': ", order, ", 'shape': ", shape, "}\n");
  std::string bytes("\x93NUMPY\x02\x00", 8);
  char length[4];
  StoreLittleEndian(static_cast<uint32_t>(text.size()), length);
  return absl::StrCat(bytes, absl::string_view(length, 4), text, data);
}

std::string NpzOf(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string bytes;
  StringSink sink(&bytes);
  ZipWriter writer(&sink);
  for (const auto& [name, data] : members) {
    ZipMemberOptions options;
    options.deflate_level = 6;
    options.size_bytes = data.size();
    EXPECT_OK(writer.BeginMember(name, options));
    EXPECT_OK(writer.Append(data));
    EXPECT_OK(writer.EndMember());
  }
  EXPECT_OK(writer.Finish());
  return bytes;
}

std::string FieldName(int i) { return absl::StrCat("f", 100000 + i); }

uint8_t ElementOf(int field, int record) { return static_cast<uint8_t>(field * 7 + record * 31); }

// `num_fields` fields of one byte.
std::string ManyFields(int num_fields, int num_records) {
  std::string descr = "[";
  for (int i = 0; i < num_fields; ++i) absl::StrAppend(&descr, "('", FieldName(i), "','|u1'),");
  std::string data;
  for (int record = 0; record < num_records; ++record) {
    for (int i = 0; i < num_fields; ++i) data += static_cast<char>(ElementOf(i, record));
  }
  return NpyOf(descr + "]", absl::StrCat("(", num_records, ",)"), data);
}

template <typename Reader>
void ExpectElements(const Reader& reader, const std::string& prefix, int num_fields, int num_records) {
  for (int i = 0; i < num_fields; ++i) {
    ASSERT_OK_AND_ASSIGN(const Tensor tensor, reader.Read(prefix + FieldName(i)));
    ASSERT_EQ(tensor.num_elements(), num_records);
    for (int record = 0; record < num_records; ++record) {
      ASSERT_EQ(tensor.data<uint8_t>()[record], ElementOf(i, record)) << i << " " << record;
    }
  }
}

TEST(NpyFields, AreReadInOnePassOfAnNpyFile) {
  auto source = std::make_shared<CountingSource>(ManyFields(2000, 1000));
  ASSERT_OK_AND_ASSIGN(const NpyReader reader, NpyReader::Open(source));
  EXPECT_LT(source->TakeTimesRead(), 1);
  ASSERT_OK(reader.VerifyAll([](const NpyDamage& damage) { ADD_FAILURE() << damage.status; }));
  EXPECT_LT(source->TakeTimesRead(), 1.1);
  ExpectElements(reader, "", 2000, 1000);
  EXPECT_LT(source->TakeTimesRead(), 2.1);  // the first one alone, then all others
}

TEST(NpyFields, AreInflatedInOnePassOfAnNpzFile) {
  auto source = std::make_shared<CountingSource>(NpzOf({{"a.npy", ManyFields(5000, 300)}}));
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(source));
  source->TakeTimesRead();
  ASSERT_OK(reader.VerifyAll([](const NpyDamage& damage) { ADD_FAILURE() << damage.status; }));
  EXPECT_LT(source->TakeTimesRead(), 2);
  ExpectElements(reader, "a.", 5000, 300);
  EXPECT_LT(source->TakeTimesRead(), 4);
}

TEST(NpyFields, ThatDoNotFitInMemoryTogetherTakeFewPasses) {
  NpyReaderOptions options;
  options.limits.max_memory_beyond_input = 1 << 20;
  auto source = std::make_shared<CountingSource>(ManyFields(100, 30000));
  ASSERT_OK_AND_ASSIGN(const NpyReader reader, NpyReader::Open(source, options));
  source->TakeTimesRead();
  ExpectElements(reader, "", 100, 30000);
  EXPECT_LT(source->TakeTimesRead(), 10);
}

TEST(NpyFields, HaveTheElementsOfTheirSlices) {
  const std::string descr =
      "[('b','|b1'),('pad','|V3'),('i','>i4',(2,3)),('s','|S3'),('u','>U2'),('in',[('x','<f8'),('y','<i2',(2,))],(1,3))"
      ","
      "('e','|S0')]";
  constexpr int kRecordBytes = 1 + 3 + 24 + 3 + 8 + 3 * 12;
  std::string data(static_cast<size_t>(6) * kRecordBytes, '\0');
  for (size_t i = 0; i < data.size(); ++i) {
    const size_t place = i % kRecordBytes;
    const bool is_text = place >= 31 && place < 39;
    if (!is_text || place % 4 == 2) data[i] = static_cast<char>(place == 0 ? i % 2 : i * 37 % 101);
  }
  for (const char* order : {"False", "True"}) {
    const std::string bytes = NpyOf(descr, "(2, 3)", data, order);
    ASSERT_OK_AND_ASSIGN(const NpyReader reader, NpyReader::Open(MakeMemorySource("a", bytes)));
    for (int round = 0; round < 2; ++round) {
      for (const NpyEntry& entry : reader.entries()) {
        if (!entry.readable.ok()) continue;
        SCOPED_TRACE(absl::StrCat(entry.name, " ", order));
        ASSERT_OK_AND_ASSIGN(const Tensor whole, reader.Read(entry.name));
        for (int64_t column = 0; column < 3; ++column) {
          std::vector<TensorSlice::Extent> extents(entry.shape.rank());
          extents[1].start = column;
          extents[1].length = 1;
          ASSERT_OK_AND_ASSIGN(const TensorSlice slice, TensorSlice::Create(extents));
          ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice(entry.name, slice));
          ASSERT_OK_AND_ASSIGN(const TensorView wanted, TensorView(whole).Slice(slice));
          EXPECT_TRUE(Equal(part, wanted));
        }
      }
    }
  }
}

TEST(NpyFields, KnowWhatTheyAreCalled) {
  const std::string bytes = NpzOf({{"k.npy", NpyOf("[('a','<i4'),('b.c',[('d','<i4')])]", "(0,)", "")},
                                   {"plain", NpyOf("'<i4'", "(0,)", "")},
                                   {".npy", NpyOf("[('z','<i4')]", "(0,)", "")}});
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(MakeMemorySource("a", bytes)));
  std::string found;
  for (const NpyEntry& entry : reader.entries()) {
    absl::StrAppend(&found, entry.name, "|", entry.field(), "|", entry.member(), ";");
  }
  EXPECT_EQ(found, "k.a|a|k.npy;k.b.c.d|b.c.d|k.npy;plain||plain;z|z|.npy;");
}

TEST(NpyFields, AreDamagedOneByOne) {
  std::string data(8, '\1');
  data[5] = 2;
  const std::string bytes = NpzOf({{"a.npy", NpyOf("[('x','|b1'),('y','|b1')]", "(4,)", data)}});
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(MakeMemorySource("a", bytes)));
  std::vector<std::string> damaged;
  ASSERT_OK(reader.VerifyAll([&](const NpyDamage& damage) {
    damaged.push_back(damage.tensor);
    EXPECT_THAT(damage.status, StatusIs(Code::kDataLoss, HasSubstr("element 2 is a bool of byte 2")));
  }));
  EXPECT_EQ(damaged, std::vector<std::string>{"a.y"});
  for (int round = 0; round < 2; ++round) {
    EXPECT_OK(reader.Read("a.x").status());
    EXPECT_THAT(reader.Read("a.y").status(), StatusIs(Code::kDataLoss, HasSubstr("element 2 is a bool of byte 2")));
  }
}

TEST(NpyFields, OfADamagedMemberAreReadOnce) {
  std::string bytes = NpzOf({{"a.npy", ManyFields(1000, 300)}});
  for (const size_t crc : {bytes.rfind("PK\x01\x02") + 16, bytes.rfind("PK\x07\x08") + 4}) {
    bytes[crc] = static_cast<char>(bytes[crc] ^ 1);  // in the directory, and after the data
  }
  auto source = std::make_shared<CountingSource>(bytes);
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(source));
  source->TakeTimesRead();
  int damaged = 0;
  ASSERT_OK(reader.VerifyAll([&](const NpyDamage& damage) {
    ++damaged;
    EXPECT_THAT(damage.status, StatusIs(Code::kDataLoss, HasSubstr("CRC-32")));
  }));
  EXPECT_EQ(damaged, 1000);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_THAT(reader.Read("a." + FieldName(i)).status(), StatusIs(Code::kDataLoss, HasSubstr("CRC-32")));
  }
  EXPECT_LT(source->TakeTimesRead(), 4);
}

TEST(NpyFields, OfLargeDeflatedStructuresAreRefused) {
  const std::string bytes =
      NpzOf({{"a.npy", NpyOf("[('x','|b1'),('y','|V5000000')]", "(1,)", std::string(5000001, '\0'))}});
  NpyReaderOptions options;
  options.limits.max_memory_beyond_input = 4'000'000;
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(MakeMemorySource("a", bytes), options));
  EXPECT_THAT(reader.Read("a.x").status(), StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
  ASSERT_OK(reader.VerifyAll([](const NpyDamage& damage) {
    EXPECT_THAT(damage.status, StatusIs(Code::kResourceExhausted, HasSubstr("a deflated structure of 5000001 bytes")));
  }));
}

// 130 fields inside one of a long name, in members that deflate to some 600 bytes each.
std::string LongNames(int num_members) {
  std::string descr = absl::StrCat("[('", std::string(60000, 'n'), "',[");
  for (int i = 0; i < 130; ++i) absl::StrAppend(&descr, "('", i, "','|u1'),");
  std::vector<std::pair<std::string, std::string>> members;
  for (int i = 0; i < num_members; ++i) {
    members.emplace_back(absl::StrCat("m", i, ".npy"), NpyOf(descr + "])]", "(0,)", ""));
  }
  return NpzOf(members);
}

TEST(NpyListing, HasOneBudgetForAllMembers) {
  const std::string few = LongNames(3);
  EXPECT_OK(NpzReader::Open(MakeMemorySource("a", few)).status());
  const std::string many = LongNames(12);
  ASSERT_LT(many.size(), 20000);
  EXPECT_THAT(NpzReader::Open(MakeMemorySource("a", many)).status(),
              StatusIs(Code::kResourceExhausted, HasSubstr("the limit max_memory_beyond_input is 67108864")));
}

TEST(NpyListing, HasOneBudgetForAllFilesThatShareIt) {
  const std::string bytes = LongNames(3);
  NpyReaderOptions options;
  options.listing = std::make_shared<ListingBudget>(options.limits);
  std::vector<NpzReader> readers;
  absl::Status status;
  while (readers.size() < 10 && status.ok()) {
    absl::StatusOr<NpzReader> reader = NpzReader::Open(MakeMemorySource("a", bytes), options);
    status = reader.status();
    if (reader.ok()) readers.push_back(*std::move(reader));
  }
  EXPECT_THAT(status, StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
}

TEST(NpyListing, CountsTheAxesOfFields) {
  std::string descr = "[";
  for (int i = 0; i < 30000; ++i) absl::StrAppend(&descr, "('", i, "','|u1'),");
  std::string shape = "(";
  for (int i = 0; i < 252; ++i) shape += "1,";
  const std::string bytes = NpyOf(descr + "]", shape + "0)", "");
  EXPECT_THAT(NpyReader::Open(MakeMemorySource("a", bytes)).status(),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
}

TEST(NpyListing, TakesHonestFiles) {
  const std::string array = NpyOf("'<f4'", "(1,)", std::string(4, '\0'));
  std::vector<std::pair<std::string, std::string>> members;
  for (int i = 0; i < 20000; ++i) members.emplace_back(absl::StrCat("layer_", i, "/kernel.npy"), array);
  NpyReaderOptions options;
  options.limits.max_memory_beyond_input = 0;  // what is stored is enough
  const std::string bytes = NpzOf(members);
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(MakeMemorySource("a", bytes), options));
  EXPECT_EQ(reader.entries().size(), 20000);
}

}  // namespace
}  // namespace tensorcask
