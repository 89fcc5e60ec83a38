// Tensors stored as the difference to a base checkpoint.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/merge.h"
#include "tensorcask/serialize/checkpoint/salvage.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/encoded_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::At;
using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::Damages;
using ::tensorcask::testing::Deltas;
using ::tensorcask::testing::ExpectReads;
using ::tensorcask::testing::Fill;
using ::tensorcask::testing::InIndex;
using ::tensorcask::testing::kData;
using ::tensorcask::testing::NameBase;
using ::tensorcask::testing::OpenIn;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::SaveIn;
using ::tensorcask::testing::Shared;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Trained;
using ::tensorcask::testing::Weights;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// ---- Deltas ---------------------------------------------------------------------------------------------------------

TEST_F(Deltas, ComeBackWithTheirBase) {
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, WithBase("/m", "/base"));
  ASSERT_OK_AND_ASSIGN(const CheckpointEntry entry, reader.Find("w"));
  ASSERT_NE(entry.payload, nullptr);
  EXPECT_TRUE(entry.payload->is_delta);
  EXPECT_LT(entry.stored_bytes, 80000u / 4);
  for (const char* name : {"new", "other dtype"}) {
    ASSERT_OK_AND_ASSIGN(const CheckpointEntry other, reader.Find(name));
    ASSERT_NE(other.payload, nullptr) << name;
    EXPECT_FALSE(other.payload->is_delta) << name;
  }
  ExpectReads(reader, "w", second_);
  ASSERT_OK_AND_ASSIGN(const auto all, reader.ReadAll(2));
  EXPECT_TRUE(SameTensor(all[2].tensor, second_));
}

TEST_F(Deltas, WithoutBaseAreNoWholeTensors) {
  NameBase(&files_, "/m", "");
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files_));
  EXPECT_THAT(Damages(reader, 2, /*without_base=*/1), ElementsAre());
  ASSERT_OK_AND_ASSIGN(const CheckpointReader with_base, WithBase("/m", "/base"));
  EXPECT_THAT(Damages(with_base, 3), ElementsAre());
  EXPECT_OK(reader.Read("new"));
  const auto refused = StatusIs(Code::kFailedPrecondition, ::testing::AllOf(HasSubstr(kData), HasSubstr("tensor \"w\""),
                                                                            HasSubstr("no base is given")));
  EXPECT_THAT(reader.Read("w"), refused);
  EXPECT_THAT(reader.Map("w"), refused);
  EXPECT_THAT(reader.ReadSlice("w", *TensorSlice::Parse("0,1:-")), refused);
  EXPECT_THAT(reader.ReadAll(), refused);
}

TEST_F(Deltas, OfAnotherBaseAreRefused) {
  const auto read = [&](const Fill& fill) {
    CheckpointWriterOptions options;
    options.overwrite = true;
    SaveIn(&files_, "/wrong", options, fill);
    absl::StatusOr<CheckpointReader> reader = WithBase("/m", "/wrong");
    if (!reader.ok()) return reader.status();
    absl::Status read = reader->Read("w").status();
    EXPECT_THAT(Damages(*reader, 2), ElementsAre(read.message()));
    return read;
  };
  EXPECT_THAT(read([](CheckpointWriter& writer) {
                return writer.Add("w", Weights({200, 100}, 2));
              }),
              StatusIs(Code::kFailedPrecondition, HasSubstr("hash")));
  EXPECT_THAT(read([](CheckpointWriter& writer) { return writer.Add("w", Weights({200}, 1)); }),
              StatusIs(Code::kFailedPrecondition, HasSubstr("float32 [200]; wanted are 20000 elements of float32")));
  EXPECT_THAT(read([](CheckpointWriter& writer) { return writer.Add("v", Weights({200}, 1)); }),
              StatusIs(Code::kFailedPrecondition, HasSubstr("/wrong, has no tensor of its name")));
}

TEST_F(Deltas, HaveADepthOfOne) {
  CheckpointWriterOptions options = At(PayloadLevel::kDefault);
  CheckpointReaderOptions read;
  read.base = Shared(OpenIn(&files_, "/base"));
  options.payload.base = Shared(OpenIn(&files_, "/m", read));
  SaveIn(&files_, "/third", options, [&](CheckpointWriter& writer) {
    CASK_RETURN_IF_ERROR(writer.Add("new", Trained(Weights({100, 100}, 9))));
    return writer.Add("w", Trained(second_));
  });
  ASSERT_OK_AND_ASSIGN(const CheckpointReader third, WithBase("/third", "/m"));
  ASSERT_OK_AND_ASSIGN(const CheckpointEntry entry, third.Find("w"));
  EXPECT_FALSE(entry.payload->is_delta);
  ExpectReads(third, "w", Trained(second_));
  ASSERT_OK_AND_ASSIGN(const CheckpointEntry fresh, third.Find("new"));
  EXPECT_TRUE(fresh.payload->is_delta);  // and its base is not a delta
  ExpectReads(third, "new", Trained(Weights({100, 100}, 9)));
  CheckpointReaderOptions with_deltas;
  with_deltas.base = options.payload.base;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files_, "/m", with_deltas));
  EXPECT_THAT(reader.Read("w"), StatusIs(Code::kFailedPrecondition, HasSubstr("and so is the tensor of its name")));
}

TEST_F(Deltas, BasesAreNotReplacedAndNotNeeded) {
  CheckpointWriterOptions options = At(PayloadLevel::kDefault);
  options.file_system = &files_;
  options.payload.base = Shared(OpenIn(&files_, "/base"));
  options.overwrite = true;
  EXPECT_THAT(CheckpointWriter::Create("/base", options),
              StatusIs(Code::kInvalidArgument, HasSubstr("the base of what is to be saved")));
  // A damaged base costs size, not the save.
  std::string data = BytesOf(files_, "/base.data-00000-of-00001");
  data[1000] ^= 1;
  files_.Put("/base.data-00000-of-00001", data);
  options.payload.base = Shared(OpenIn(&files_, "/base"));
  SaveIn(&files_, "/m", options, [&](CheckpointWriter& writer) { return writer.Add("w", second_); });
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files_));
  ExpectReads(reader, "w", second_);
}

TEST_F(Deltas, OfADamagedBaseNameIt) {
  std::string data = BytesOf(files_, "/base.data-00000-of-00001");
  data[1000] ^= 1;
  files_.Put("/base.data-00000-of-00001", data);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, WithBase("/m", "/base"));
  EXPECT_THAT(reader.Read("w"), StatusIs(Code::kDataLoss, HasSubstr("/base.data-00000-of-00001")));
  EXPECT_THAT(Damages(reader, 2), ElementsAre(HasSubstr("/base.data-00000-of-00001")));
}

// ---- Other doors ----------------------------------------------------------------------------------------------------

TEST_F(Deltas, AreMergedAsTheyStand) {
  SaveIn(&files_, "/plain", {}, [&](CheckpointWriter& writer) { return writer.Add("p", first_); });
  CheckpointMergeOptions options;
  options.file_system = &files_;
  ASSERT_OK(MergeCheckpoints({"/plain", "/m"}, "/merged", options));
  EXPECT_EQ(InIndex<BundleHeaderProto>(files_, "/merged", "").version().min_consumer(), 2);
  EXPECT_EQ(InIndex<BundleHeaderProto>(files_, "/merged", "").extension().base(), "base");
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, WithBase("/merged", "/base"));
  EXPECT_THAT(Damages(reader, 4), ElementsAre());
  ExpectReads(reader, "w", second_);
  ExpectReads(reader, "new", Weights({100, 100}, 9));
  ExpectReads(reader, "p", first_);
}

TEST_F(Deltas, AreSalvagedWithTheirBase) {
  CheckpointReaderOptions read;
  read.read.file_system = &files_;
  CheckpointWriterOptions write;
  write.file_system = &files_;
  const std::string index = BytesOf(files_, "/m.index");
  NameBase(&files_, "/m", "");
  ASSERT_OK_AND_ASSIGN(const SalvageReport without, SalvageCheckpoint("/m", "/without", read, write));
  EXPECT_EQ(without.saved, 2);
  ASSERT_EQ(without.lost.size(), 1u);
  EXPECT_EQ(without.lost[0].tensor, "w");
  EXPECT_THAT(without.lost[0].status, StatusIs(Code::kFailedPrecondition, HasSubstr("delta")));
  read.base = Shared(OpenIn(&files_, "/base"));
  ASSERT_OK_AND_ASSIGN(const SalvageReport with, SalvageCheckpoint("/m", "/with", read, write));
  EXPECT_EQ(with.saved, 3);
  EXPECT_TRUE(with.lost.empty());
  files_.Put("/m.index", index);
  read.base = nullptr;
  ASSERT_OK_AND_ASSIGN(const SalvageReport by_name, SalvageCheckpoint("/m", "/by name", read, write));
  EXPECT_EQ(by_name.saved, 3) << "the index names the base";
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files_, "/with"));
  ExpectReads(reader, "w", second_);
  for (const char* name : {"new", "w"}) {
    ASSERT_OK_AND_ASSIGN(const CheckpointEntry entry, reader.Find(name));
    ASSERT_NE(entry.payload, nullptr) << name;
    EXPECT_EQ(entry.payload->level, 1) << name;
    EXPECT_FALSE(entry.payload->is_delta) << name;
  }
}

}  // namespace
}  // namespace tensorcask
