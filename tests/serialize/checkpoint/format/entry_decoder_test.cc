#include "tensorcask/serialize/checkpoint/format/entry_decoder.h"

#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/format/entry_encoder.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::checkpoint {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;

BundleEntryProto RandomProto(std::mt19937* random) {
  const auto below = [&](int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(*random); };
  BundleEntryProto proto;
  const DType dtypes[] = {DType::kFloat32, DType::kBool, DType::kString, DType::kComplex128, DType::kUint2};
  const DType dtype = dtypes[below(5)];
  proto.set_dtype(static_cast<DataType>(DTypeNumber(dtype)));
  proto.mutable_shape();
  int64_t elements = 1;
  for (int64_t rank = below(4); rank > 0; --rank) {
    const int64_t dim = below(300);
    proto.mutable_shape()->add_dim()->set_size(dim);
    elements *= dim;
  }
  proto.set_shard_id(static_cast<int32_t>(below(5)));
  proto.set_offset(below(int64_t{1} << (1 + below(50))));
  proto.set_size(dtype == DType::kString ? elements + 4 + below(1000)
                                         : elements * static_cast<int64_t>(ElementSize(dtype)));
  proto.set_crc32c(static_cast<uint32_t>((*random)()));
  return proto;
}

void ExpectSame(const IndexEntry& index, const BundleEntryProto& proto) {
  EXPECT_EQ(index.dtype_number, proto.dtype() != 0 ? proto.dtype() : proto.extension().dtype());
  ASSERT_EQ(index.entry.shape.rank(), proto.shape().dim_size());
  for (int i = 0; i < proto.shape().dim_size(); ++i) EXPECT_EQ(index.entry.shape.dim(i), proto.shape().dim(i).size());
  EXPECT_EQ(index.entry.shard, proto.shard_id());
  EXPECT_EQ(index.entry.offset, static_cast<uint64_t>(proto.offset()));
  EXPECT_EQ(index.entry.stored_bytes, static_cast<uint64_t>(proto.size()));
  EXPECT_EQ(index.entry.masked_crc32c, proto.crc32c());
  EXPECT_EQ(index.entry.slices.size(), static_cast<size_t>(proto.slices_size()));
}

TEST(EntryCodec, AgreesWithProtobuf) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const BundleEntryProto proto = RandomProto(&random);
    const std::string bytes = proto.SerializeAsString();
    IndexEntry index;
    ASSERT_OK(DecodeEntry(bytes, 5, {}, &index));
    ExpectSame(index, proto);
    EXPECT_EQ(index.entry.form, EntryForm::kPlain);
    EXPECT_EQ(EncodeEntry(index.entry), bytes);
  }
}

// Bytes changed at random: what we take, protobuf takes, and reads the same.
TEST(EntryCodec, TakesNothingThatProtobufRefuses) {
  int taken = 0;
  for (uint32_t seed = 0; seed < 30000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::string bytes = RandomProto(&random).SerializeAsString();
    for (size_t i = 1 + random() % 3; i > 0; --i) {
      const size_t at = random() % (bytes.size() + 1);
      if (at == bytes.size() || random() % 4 == 0) {
        bytes.insert(at, 1, static_cast<char>(random()));
      } else if (random() % 4 == 0) {
        bytes.erase(at, 1);
      } else {
        bytes[at] = static_cast<char>(random());
      }
    }
    IndexEntry index;
    if (!DecodeEntry(bytes, 5, {}, &index).ok()) continue;
    BundleEntryProto proto;
    ASSERT_TRUE(proto.ParseFromString(bytes)) << ::testing::PrintToString(bytes);
    ExpectSame(index, proto);
    ++taken;
  }
  EXPECT_GT(taken, 1000);
}

TEST(HeaderDecoder, TheBaseIsAName) {
  // Any bytes but those that lead out of the folder or end a path.
  for (const std::string& base : {std::string("ckpt-1"), std::string("a b"), std::string("\xff\n"), std::string(".."),
                                  std::string(255, 'x'), std::string("a\\b")}) {
    ASSERT_OK_AND_ASSIGN(const IndexHeader header, DecodeHeader(EncodeHeader(1, true, base), {}));
    EXPECT_EQ(header.base, base);
  }
  for (const std::string& base : {std::string("../ckpt-1"), std::string("/etc/x"), std::string("/"), std::string("a/"),
                                  std::string("../../ckpt-1"), std::string("a\0b", 3), std::string("\0", 1),
                                  std::string(256, 'x'), std::string(1 << 20, 'x')}) {
    EXPECT_THAT(DecodeHeader(EncodeHeader(1, true, base), {}),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("wanted a name in the same folder")));
  }
  // As protobuf has it: of two fields the last one, of two messages all fields.
  BundleHeaderProto first;
  first.set_num_shards(1);
  first.mutable_version()->set_producer(1);
  first.mutable_version()->set_min_consumer(2);
  first.mutable_extension()->set_reader_version(2);
  BundleHeaderProto second;
  second.mutable_extension()->set_base("other");
  BundleHeaderProto third;
  third.mutable_extension()->set_base("ckpt-1");
  const std::string bytes = first.SerializeAsString() + second.SerializeAsString() + third.SerializeAsString();
  ASSERT_OK_AND_ASSIGN(const IndexHeader header, DecodeHeader(bytes, {}));
  EXPECT_EQ(header.base, "ckpt-1");
  // A number is not a name.
  EXPECT_THAT(DecodeHeader(first.SerializeAsString() + "\x82\x80\x02\x02\x10\x07", {}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("base")));
}

TEST(Naming, OfFiles) {
  EXPECT_EQ(PrefixBeside("a/m", "base"), "a/base");
  EXPECT_EQ(PrefixBeside("/m", "base"), "/base");
  EXPECT_EQ(PrefixBeside("m", "base"), "base");
  EXPECT_EQ(IndexPath("a/m"), "a/m.index");
  EXPECT_EQ(DataPath("a/m", 0, 1), "a/m.data-00000-of-00001");
  EXPECT_EQ(DataPath("m", 99998, 99999), "m.data-99998-of-99999");
  const std::optional<DataName> name = ParseDataName("a/m.data-00003-of-00012");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "a/m");
  EXPECT_EQ(name->shard, 3);
  EXPECT_EQ(name->num_shards, 12);
  for (const char* none : {"", "m", "m.index", ".data-00000-of-00001", "m.data-0000-of-00001", "m.data-00000-of-0001",
                           "m.data-00000-of-000001", "m.data-0000x-of-00001", "m.data-00000-of-00001x"}) {
    EXPECT_FALSE(ParseDataName(none).has_value()) << none;
  }
}

TEST(EntryCodec, SlicesTakeNoMemoryThatTheMessageDoesNotStandFor) {
  BundleEntryProto proto;
  proto.set_dtype(DT_FLOAT);
  for (int i = 0; i < 10000; ++i) proto.add_slices();
  IndexEntry entry;
  EXPECT_THAT(DecodeEntry(proto.SerializeAsString(), 1, {}, &entry),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("slices in")));
}

}  // namespace
}  // namespace tensorcask::checkpoint
