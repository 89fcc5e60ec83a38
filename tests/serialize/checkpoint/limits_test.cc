// Every field of DecodeLimits against every surface that it bounds: past it the answer is ResourceExhausted and names
// the limit, never damage. One input serves both halves of a row: with the default limits it is accepted.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/format/entry_encoder.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/checkpoint/object_graph.h"
#include "tensorcask/serialize/checkpoint/table/table_writer.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/payload/payload_reader.h"
#include "tensorcask/serialize/wire/records.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/serialize/wire/zero_copy.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using testing::BytesField;
using ::testing::HasSubstr;
using testing::ShapeField;
using testing::StatusIs;
using testing::VarintField;
using Limits = DecodeLimits;

// ---- Quotas ---------------------------------------------------------------------------------------------------------

TEST(DecodeQuota, NamesTheLimitAndWhatWasAskedFor) {
  DecodeQuota quota("max_file_decoded_bytes", 100);
  EXPECT_OK(quota.Charge(60));
  EXPECT_THAT(
      quota.Charge(41),
      StatusIs(absl::StatusCode::kResourceExhausted,
               "decodes to 41 bytes, after 60 that were decoded before; the limit max_file_decoded_bytes is 100"));
  EXPECT_EQ(quota.charged(), 60) << "what was refused does not count";
  EXPECT_OK(quota.Charge(40));
  EXPECT_OK(quota.Charge(0));
  EXPECT_THAT(quota.Charge(UINT64_MAX), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("2^63 or more")));
  quota.Reset();
  EXPECT_OK(quota.Charge(100));
}

TEST(DecodeQuota, BackedBytesComeOnTop) {
  DecodeLimits limits;
  limits.max_memory_beyond_input = -5;  // nothing
  DecodeQuota quota = DecodeQuota::ForUnbacked(limits, 10);
  EXPECT_OK(quota.Charge(10));
  EXPECT_THAT(quota.Charge(1), StatusIs(absl::StatusCode::kResourceExhausted,
                                        "decodes to 1 unbacked bytes, after 10 that were decoded before; the input "
                                        "backs 10; the limit max_memory_beyond_input is -5"));
  limits.max_memory_beyond_input = INT64_MAX;
  DecodeQuota all = DecodeQuota::ForUnbacked(limits, UINT64_MAX);
  EXPECT_OK(all.Charge(uint64_t{1} << 63));
  EXPECT_FALSE(all.Charge(UINT64_MAX).ok());
}

TEST(DecodeQuota, OfAMessageHasTwoParts) {
  DecodeLimits limits;
  limits.max_message_bytes = 100;
  limits.max_memory_beyond_input = 10;
  MessageQuota quota(limits);
  EXPECT_OK(quota.Charge(50, 10));
  EXPECT_THAT(quota.Charge(10, 1),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("max_memory_beyond_input is")));
  EXPECT_THAT(quota.Charge(std::nullopt, 0),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("max_message_bytes is 100")));
}

// ---- Inputs ---------------------------------------------------------------------------------------------------------

// The first error of the decoders of messages, which all must have the same code.
absl::Status DecodeMessage(const std::string& message, const Limits& limits) {
  DecodeOptions options;
  options.limits = limits;
  const absl::Status bytes = DecodeSerializedTensorWithMetadata(message, options).status();
  EXPECT_EQ(DecodeTensorFromCord(absl::Cord(message), options).status().code(), bytes.code());
  TensorProto proto;
  EXPECT_TRUE(proto.ParseFromString(message));
  const absl::Status object = DecodeTensorWithMetadata(proto, options).status();
  EXPECT_EQ(object.code(), bytes.code()) << object;
  return bytes;
}

std::string Filled() { return VarintField(1, 3) + VarintField(7, 1) + ShapeField({1000}); }  // int32, one value

Tensor Zeros(int64_t count) { return *Tensor::Zeros(DType::kInt64, TensorShape({count})); }

Tensor VariantOf(const Tensor& inside) {
  Tensor variant = *Tensor::Create(DType::kVariant, TensorShape());
  variant.mutable_flat<Variant>()[0].tensors = {inside};
  return variant;
}

TensorProto Encoded() {
  TensorProto proto;
  EncodeOptions options;
  options.payload.level = PayloadLevel::kDefault;
  EXPECT_OK(EncodeTensor(Zeros(100'000), options, &proto));
  EXPECT_FALSE(proto.extension().payload().empty());
  return proto;
}

// A checkpoint of tensors of all forms, and what is done with it.
class Checkpoint {
 public:
  Checkpoint() {
    CheckpointWriterOptions options;
    options.file_system = &files_;
    options.level_rules = {{"encoded*", PayloadLevel::kDefault}};
    absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Create("/m", options);
    EXPECT_OK(writer);
    CheckpointAddOptions named;
    named.metadata.name = std::string(100, 'n');
    Tensor strings = *Tensor::Create(DType::kString, TensorShape({1000}));
    EXPECT_OK(writer->Add("encoded", Zeros(100'000)));
    EXPECT_OK(writer->Add("named", Zeros(1), named));
    EXPECT_OK(writer->Add("strings", strings));
    EXPECT_OK(writer->Add("variant", VariantOf(VariantOf(Zeros(10'000)))));
    EXPECT_OK(writer->Add("w", Zeros(1000)));
    EXPECT_OK(writer->Finish());
  }

  absl::StatusOr<CheckpointReader> Open(const Limits& limits) const {
    CheckpointReaderOptions options;
    options.read.file_system = const_cast<MemoryFileSystem*>(&files_);
    options.limits = limits;
    return CheckpointReader::Open("/m", options);
  }
  absl::Status With(const Limits& limits, const std::function<absl::Status(const CheckpointReader&)>& use) const {
    const absl::StatusOr<CheckpointReader> reader = Open(limits);
    return reader.ok() ? use(*reader) : reader.status();
  }

 private:
  MemoryFileSystem files_;
};

// What VerifyAll says first.
absl::Status Verify(const CheckpointReader& reader) {
  absl::Status first;
  const auto counts = reader.VerifyAll([&first](const CheckpointDamage& damage) { first.Update(damage.status); });
  first.Update(counts.status());
  return first;
}

// An index whose names share all but four of their 1000 bytes, far from each whole one.
absl::Status ListNamesThatShareAll(const Limits& limits) {
  std::string index;
  StringSink sink(&index);
  checkpoint::TableOptions options;
  options.restart_interval = 4000;
  options.block_bytes = 1 << 20;
  checkpoint::TableWriter table(&sink, options);
  EXPECT_OK(table.Add("", checkpoint::EncodeHeader(1, false)));
  const std::string entry = testing::EntryOf(1, {0}, "").SerializeAsString();
  for (int i = 1000; i < 4000; ++i) EXPECT_OK(table.Add(std::string(1000, 'n') + absl::StrCat(i), entry));
  EXPECT_OK(table.Finish());
  MemoryFileSystem files;
  files.Put("/m.index", index);
  CheckpointReaderOptions read;
  read.read.file_system = &files;
  read.limits = limits;
  const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open("/m", read);
  return reader.ok() ? reader->entries().status() : reader.status();
}

// A V1 file of one tensor of int64 zeros, `shape` in one piece, and what `use` says of it.
absl::Status V1(const Limits& limits, const std::function<absl::Status(const CheckpointReader&)>& use) {
  const std::string slice = BytesField(1, "");
  const std::string meta = BytesField(1, "tensor") + ShapeField({10'000}) + VarintField(3, 9) + BytesField(4, slice);
  const std::string values = BytesField(10, std::string(10'000, '\0'));
  MemoryFileSystem files;
  files.Put("/v1", testing::IndexOf(
                       {{"", BytesField(1, BytesField(1, meta) + BytesField(2, VarintField(1, 1)))},
                        {checkpoint::EncodeSliceKey("tensor", TensorSlice::Full(1)),
                         BytesField(2, BytesField(1, "tensor") + BytesField(2, slice) + BytesField(3, values))}}));
  CheckpointReaderOptions read;
  read.read.file_system = &files;
  read.limits = limits;
  const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open("/v1", read);
  return reader.ok() ? use(*reader) : reader.status();
}

absl::Status NextRecord(const Limits& limits) {
  std::string bytes;
  StringSink sink(&bytes);
  RecordWriter writer(&sink);
  EXPECT_OK(writer.Write(absl::string_view(std::string(1000, 'x'))));
  RecordReaderOptions options;
  options.limits = limits;
  RecordReader reader(MakeMemorySource("r", bytes), options);
  return reader.Next().status();
}

absl::Status OpenPayload(const Limits& limits) {
  const TensorProto proto = Encoded();
  PayloadReadOptions options;
  options.limits = limits;
  return PayloadReader::Open(proto.extension().payload(), options).status();
}

absl::Status Graph(const Limits& limits) {
  const std::string node = BytesField(1, BytesField(1, VarintField(1, 0) + BytesField(2, "self")));
  return DecodeObjectGraph(node, limits).status();
}

// ---- The table ------------------------------------------------------------------------------------------------------

struct LimitCase {
  const char* name;
  const char* limit;
  std::function<void(Limits*)> lower;
  std::function<absl::Status(const Limits&)> use;
};

std::vector<LimitCase> Cases() {
  static const auto& checkpoint = *new Checkpoint();
  using Reader = CheckpointReader;
  const auto with = [](std::function<absl::Status(const Reader&)> use) {
    return [use](const Limits& limits) { return checkpoint.With(limits, use); };
  };
  const auto v1 = [](std::function<absl::Status(const Reader&)> use) {
    return [use](const Limits& limits) { return V1(limits, use); };
  };
  const auto message = [](const std::string& bytes) {
    return [bytes](const Limits& limits) { return DecodeMessage(bytes, limits); };
  };
  const auto open = [](const Reader&) { return absl::OkStatus(); };
  const auto list = [](const Reader& reader) { return reader.entries().status(); };
  const auto read = [](const char* name) { return [name](const Reader& r) { return r.Read(name).status(); }; };
  const auto read_all = [](const Reader& reader) { return reader.ReadAll().status(); };
  const auto metadata = [](const Reader& reader) { return reader.Metadata("named").status(); };
  const std::string float_content = VarintField(1, 1) + ShapeField({100}) + BytesField(4, std::string(400, 'x'));
  const std::string named = float_content + BytesField(4096, BytesField(1, std::string(100, 'n')));
  return {
      {"Message", "max_memory_beyond_input", [](Limits* l) { l->max_memory_beyond_input = 3995; }, message(Filled())},
      {"Message", "max_message_bytes", [](Limits* l) { l->max_message_bytes = 399; }, message(float_content)},
      {"Message", "max_depth", [](Limits* l) { l->max_depth = 1; }, message(float_content)},
      {"Message", "max_name_bytes", [](Limits* l) { l->max_name_bytes = 99; }, message(named)},
      {"Message", "max_expansion", [](Limits* l) { l->max_expansion = 2, l->max_memory_beyond_input = 0; },
       message(Encoded().SerializeAsString())},
      {"Record", "max_message_bytes", [](Limits* l) { l->max_message_bytes = 999; }, NextRecord},
      {"Payload", "max_expansion", [](Limits* l) { l->max_expansion = 2, l->max_memory_beyond_input = 0; },
       OpenPayload},
      {"Payload", "max_memory_beyond_input",
       [](Limits* l) { l->max_expansion = 0, l->max_memory_beyond_input = 799'999; }, OpenPayload},

      {"BundleOpen", "max_depth", [](Limits* l) { l->max_depth = 0; }, with(open)},
      {"BundleOpen", "max_message_bytes", [](Limits* l) { l->max_message_bytes = 10; }, with(open)},
      {"BundleOpen", "max_entries", [](Limits* l) { l->max_entries = 0; }, with(open)},
      {"BundleOpen", "max_file_decoded_bytes", [](Limits* l) { l->max_file_decoded_bytes = 10; }, with(open)},
      {"BundleList", "max_depth", [](Limits* l) { l->max_depth = 1; }, with(list)},
      {"BundleList", "max_entries", [](Limits* l) { l->max_entries = 4; }, with(list)},
      {"BundleList", "max_name_bytes", [](Limits* l) { l->max_name_bytes = 6; }, with(list)},
      {"BundleList", "max_memory_beyond_input", [](Limits* l) { l->max_memory_beyond_input = 0; },
       ListNamesThatShareAll},
      {"BundleFind", "max_depth", [](Limits* l) { l->max_depth = 1; }, with(read("w"))},
      {"BundleMetadata", "max_name_bytes", [](Limits* l) { l->max_name_bytes = 99; }, with(metadata)},
      {"BundleRead", "max_file_decoded_bytes", [](Limits* l) { l->max_file_decoded_bytes = 7999; }, with(read("w"))},
      {"BundleRead", "max_expansion", [](Limits* l) { l->max_expansion = 2; }, with(read("encoded"))},
      {"BundleReadVariant", "max_message_bytes", [](Limits* l) { l->max_message_bytes = 20'000; },
       with(read("variant"))},
      {"BundleReadVariant", "max_depth", [](Limits* l) { l->max_depth = 4; }, with(read("variant"))},
      {"BundleReadVariant", "max_file_decoded_bytes", [](Limits* l) { l->max_file_decoded_bytes = 79'999; },
       with(read("variant"))},
      {"BundleReadAll", "max_file_decoded_bytes", [](Limits* l) { l->max_file_decoded_bytes = 800'000; },
       with(read_all)},
      {"BundleVerify", "max_depth", [](Limits* l) { l->max_depth = 1; }, with(Verify)},
      {"BundleVerify", "max_entries", [](Limits* l) { l->max_entries = 4; }, with(Verify)},
      {"BundleVerify", "max_name_bytes", [](Limits* l) { l->max_name_bytes = 99; }, with(Verify)},
      {"BundleVerify", "max_expansion", [](Limits* l) { l->max_expansion = 2; }, with(Verify)},
      {"BundleVerify", "max_file_decoded_bytes", [](Limits* l) { l->max_file_decoded_bytes = 20'000; }, with(Verify)},
      {"BundleVerify", "max_message_bytes", [](Limits* l) { l->max_message_bytes = 20'000; }, with(Verify)},

      {"V1Open", "max_depth", [](Limits* l) { l->max_depth = 1; }, v1(open)},
      {"V1Open", "max_entries", [](Limits* l) { l->max_entries = 1; }, v1(open)},
      {"V1Open", "max_name_bytes", [](Limits* l) { l->max_name_bytes = 5; }, v1(open)},
      {"V1Open", "max_memory_beyond_input", [](Limits* l) { l->max_memory_beyond_input = 0; }, v1(open)},
      {"V1Open", "max_message_bytes", [](Limits* l) { l->max_message_bytes = 10; }, v1(open)},
      {"V1Read", "max_file_decoded_bytes", [](Limits* l) { l->max_file_decoded_bytes = 79'999; }, v1(read("tensor"))},
      {"V1Read", "max_message_bytes", [](Limits* l) { l->max_message_bytes = 79'999; }, v1(read("tensor"))},
      {"V1Verify", "max_message_bytes", [](Limits* l) { l->max_message_bytes = 79'999; }, v1(Verify)},

      {"ObjectGraph", "max_depth", [](Limits* l) { l->max_depth = 1; }, Graph},
      {"ObjectGraph", "max_entries", [](Limits* l) { l->max_entries = 1; }, Graph},
  };
}

class EveryLimit : public ::testing::TestWithParam<LimitCase> {};
TEST_P(EveryLimit, IsResourceExhaustedAndNamesItself) {
  const LimitCase& c = GetParam();
  EXPECT_OK(c.use(DecodeLimits()));
  DecodeLimits limits;
  c.lower(&limits);
  EXPECT_THAT(c.use(limits), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(c.limit)));
}
INSTANTIATE_TEST_SUITE_P(Limits, EveryLimit, ::testing::ValuesIn(Cases()), [](const auto& info) {
  return absl::StrCat(info.index, "_", info.param.name, "_", info.param.limit);
});

}  // namespace
}  // namespace tensorcask
