// Messages and records of memory that another process writes to meanwhile: what is written decodes.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/records.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/serialize/wire/tensor_records.h"
#include "tensorcask/serialize/wire/zero_copy.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"
#include "tensorcask/tests/support/memory_that_changes.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::ChangingMemory;

constexpr int64_t kNumElements = 200'000;

// Changes the memory before and after it takes bytes.
class ChangingSink final : public ByteSink {
 public:
  explicit ChangingSink(ChangingMemory* memory) : memory_(memory), sink_(&bytes_) {}
  absl::Status Append(absl::string_view bytes) override {
    memory_->Change();
    const absl::Status status = sink_.Append(bytes);
    memory_->Change();
    if (++appends_ % 2 == 0) memory_->Change();
    return status;
  }
  uint64_t position() const override { return sink_.position(); }
  const std::string& bytes() const { return bytes_; }

 private:
  ChangingMemory* const memory_;
  std::string bytes_;
  StringSink sink_;
  int appends_ = 0;
};

// The forms in which a tensor is encoded.
std::vector<EncodeOptions> Forms() {
  std::vector<EncodeOptions> forms;
  for (const bool checksum : {false, true}) {
    EncodeOptions options;
    options.checksum = checksum;
    forms.push_back(options);
    options.payload.level = PayloadLevel::kDefault;
    forms.push_back(options);
    options.payload.level = PayloadLevel::kStored;
    options.representation = Representation::kValues;
    forms.push_back(options);
  }
  return forms;
}

TEST(ChangingMemory, RecordsAreWholeIfItChangesBetweenWrites) {
  for (const EncodeOptions& options : Forms()) {
    SCOPED_TRACE(absl::StrCat("checksum ", options.checksum, ", level ", static_cast<int>(options.payload.level)));
    ChangingMemory memory(DType::kFloat32, kNumElements);
    ChangingSink sink(&memory);
    RecordWriter writer(&sink);
    ASSERT_OK(WriteTensorRecord(memory.tensor(), options, &writer));
    ASSERT_OK(WriteTensorRecord(memory.tensor(), options, &writer));
    RecordReader reader(MakeMemorySource("records", sink.bytes()));
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK_AND_ASSIGN(const std::optional<Tensor> tensor, ReadTensorRecord(&reader));
      ASSERT_TRUE(tensor.has_value());
    }
  }
}

TEST(ChangingMemory, PiecesOfARecordAreCopiedIfTheCallerSaysSo) {
  ChangingMemory memory(DType::kUint8, 1'000'003);
  ChangingSink sink(&memory);
  RecordWriter writer(&sink);
  const absl::string_view bytes(memory.bytes().data(), memory.bytes().size());
  const absl::string_view pieces[] = {bytes.substr(0, 7), bytes.substr(7)};
  ASSERT_OK(writer.Write(pieces, /*may_change=*/true));
  ASSERT_OK(writer.Write(absl::Span<const absl::string_view>(), /*may_change=*/true));
  RecordReader reader(MakeMemorySource("records", sink.bytes()));
  ASSERT_OK_AND_ASSIGN(const std::optional<absl::string_view> record, reader.Next());
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->size(), bytes.size());
}

TEST(ChangingMemory, MessagesDecodeWhileAThreadChangesIt) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the race is the point of this test";
#endif
  for (const DType dtype : {DType::kInt64, DType::kFloat32}) {
    ChangingMemory memory(dtype, 20'000);
    Tensor variants = *Tensor::Create(DType::kVariant, TensorShape({1}));
    variants.mutable_data<Variant>()->tensors = {memory.tensor()};
    const ChangingMemory::Thread thread(&memory);
    for (const EncodeOptions& options : Forms()) {
      for (const Tensor& tensor : {memory.tensor(), variants}) {
        for (int i = 0; i < 50; ++i) {
          SCOPED_TRACE(absl::StrCat("message ", i, " of ", DTypeName(tensor.dtype())));
          TensorProto proto;
          ASSERT_OK(EncodeTensor(tensor, options, &proto));
          ASSERT_OK(DecodeTensor(proto).status());
          ASSERT_OK_AND_ASSIGN(const MessagePieces message, EncodeTensorToPieces(tensor, TensorMetadata(), options));
          std::string bytes;
          for (const absl::string_view piece : message.pieces) bytes.append(piece.data(), piece.size());
          ASSERT_OK(DecodeSerializedTensor(bytes).status());
          if (options.representation == Representation::kValues || dtype != DType::kFloat32) continue;
          // The size of content does not depend on the elements.
          if (options.payload.level != PayloadLevel::kStored || tensor.dtype() == DType::kVariant) continue;
          ASSERT_OK_AND_ASSIGN(const uint64_t size, EncodedSize(tensor, options));
          bytes.resize(size);
          ASSERT_OK(EncodeTensorTo(tensor, options, absl::MakeSpan(&bytes[0], bytes.size())));
          ASSERT_OK(DecodeSerializedTensor(bytes).status());
        }
      }
    }
  }
}

}  // namespace
}  // namespace tensorcask
