#include "tensorcask/serialize/checkpoint/format/entry_encoder.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/format/entry_decoder.h"
#include "tensorcask/serialize/wire/message/extension_writer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::checkpoint {
namespace {

TEST(EntryEncoder, HeadersAreThoseOfProtobuf) {
  EXPECT_EQ(EncodeHeader(1, /*requires_reader_v2=*/false), "\x08\x01\x1a\x02\x08\x01");
  for (const bool requires_reader_v2 : {false, true}) {
    BundleHeaderProto proto;
    proto.set_num_shards(99999);
    proto.mutable_version()->set_producer(1);
    if (requires_reader_v2) {
      proto.mutable_version()->set_min_consumer(2);
      proto.mutable_extension()->set_reader_version(2);
    }
    EXPECT_EQ(EncodeHeader(99999, requires_reader_v2), proto.SerializeAsString());
    ASSERT_OK_AND_ASSIGN(const IndexHeader decoded, DecodeHeader(EncodeHeader(99999, requires_reader_v2), {}));
    EXPECT_EQ(decoded.num_shards, 99999);
    EXPECT_EQ(decoded.base, "");
  }
}

TEST(EntryEncoder, HeadersOfDeltasNameTheBase) {
  const std::string header = EncodeHeader(2, /*requires_reader_v2=*/true, "ckpt-1");
  EXPECT_EQ(header, std::string("\x08\x02\x1a\x04\x08\x01\x10\x02\x82\x80\x02\x0a\x08\x02\x12\x06"
                                "ckpt-1",
                                22));
  BundleHeaderProto proto;
  proto.set_num_shards(2);
  proto.mutable_version()->set_producer(1);
  proto.mutable_version()->set_min_consumer(2);
  proto.mutable_extension()->set_reader_version(2);
  proto.mutable_extension()->set_base("ckpt-1");
  EXPECT_EQ(header, proto.SerializeAsString());
  EXPECT_EQ(EncodeHeader(1, /*requires_reader_v2=*/false, "ckpt-1"), EncodeHeader(1, /*requires_reader_v2=*/false))
      << "a checkpoint that TensorFlow reads has no deltas";
}

TEST(EntryEncoder, EntriesAreThoseOfProtobuf) {
  int extension_only = 0;
  int sliced = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto any = [&](int bits) { return random() >> (64 - bits) >> random() % static_cast<unsigned>(bits); };
    CheckpointEntry entry;
    BundleEntryProto proto;
    const DType dtypes[] = {DType::kFloat32, DType::kBool, DType::kString, DType::kComplex128, DType::kUint2};
    entry.dtype = dtypes[random() % 5];
    DimVector dims(random() % 7);
    proto.mutable_shape();
    for (int64_t& dim : dims) {
      dim = static_cast<int64_t>(any(9));
      proto.mutable_shape()->add_dim()->set_size(dim);
    }
    ASSERT_OK_AND_ASSIGN(entry.shape, TensorShape::Create(dims));
    entry.shard = static_cast<int32_t>(any(10));
    entry.offset = any(63);
    entry.stored_bytes = any(63);
    entry.masked_crc32c = static_cast<uint32_t>(any(32));
    if (random() % 3 == 0) {
      for (auto left = 1 + random() % 3; left > 0; --left) {
        std::vector<TensorSlice::Extent> extents(dims.size());
        TensorSliceProto* const slice = proto.add_slices();
        for (TensorSlice::Extent& extent : extents) {
          TensorSliceProto::Extent* const part = slice->add_extent();
          if (random() % 3 == 0) continue;
          extent = {static_cast<int64_t>(any(62)), 1 + static_cast<int64_t>(any(62))};
          part->set_start(extent.start);
          part->set_length(extent.length);
        }
        ASSERT_OK_AND_ASSIGN(const TensorSlice made, TensorSlice::Create(extents));
        entry.slices.push_back(made);
      }
      ++sliced;
    } else {
      proto.set_shard_id(entry.shard);
      proto.set_offset(static_cast<int64_t>(entry.offset));
      proto.set_size(static_cast<int64_t>(entry.stored_bytes));
      proto.set_crc32c(entry.masked_crc32c);
    }
    TensorMetadata metadata;
    internal::ExtensionContent extension;
    extension.metadata = &metadata;
    if (random() % 2 == 0) {
      metadata.name = std::string(any(8), 'n');
      metadata.requires_grad = random() % 2 == 0;
      metadata.memory_format = static_cast<MemoryFormat>(random() % 2);
      if (random() % 2 == 0) metadata.device = {DeviceType::kCuda, 1};
      for (auto left = random() % 3; left > 0; --left) metadata.attributes[std::string(1 + any(8), 'k')] = "v";
    }
    if (random() % 4 == 0 && entry.slices.empty()) {
      extension.dtype_number = DTypeNumber(entry.dtype);
      for (size_t i = 0; i < dims.size(); ++i) extension.strides.push_back(static_cast<int64_t>(random()));
      extension.storage_offset = static_cast<int64_t>(any(40));
      proto.mutable_extension()->set_dtype(DTypeNumber(entry.dtype));
      for (const int64_t stride : extension.strides) proto.mutable_extension()->add_strides(stride);
      proto.mutable_extension()->set_storage_offset(extension.storage_offset);
      ++extension_only;
    } else {
      proto.set_dtype(static_cast<DataType>(DTypeNumber(entry.dtype)));
    }
    if (!metadata.IsDefault()) {
      TensorExtension* const said = proto.mutable_extension();
      said->set_name(metadata.name);
      if (metadata.device != Device()) said->set_device(metadata.device.ToString());
      said->set_memory_format(static_cast<int32_t>(metadata.memory_format));
      said->set_requires_grad(metadata.requires_grad);
      for (const auto& [key, value] : metadata.attributes) {
        TensorExtension::Attribute* const attribute = said->add_attributes();
        attribute->set_key(key);
        attribute->set_value(value);
      }
    }
    EXPECT_EQ(EncodeEntry(entry, extension), proto.SerializeAsString());
    if (!proto.has_extension()) {
      EXPECT_EQ(EncodeEntry(entry), proto.SerializeAsString());
    }
  }
  EXPECT_GT(extension_only, 300);
  EXPECT_GT(sliced, 300);
}

}  // namespace
}  // namespace tensorcask::checkpoint
