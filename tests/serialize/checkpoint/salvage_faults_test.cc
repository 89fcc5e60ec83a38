// A process without file descriptors or memory finds nothing wrong with a file; one that has set limits goes on.

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/salvage.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr char kPrefix[] = "/m";

class SalvageOfThree : public ::testing::Test {
 protected:
  void SetUp() override {
    CheckpointWriterOptions options;
    options.file_system = &files_;
    ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create(kPrefix, options));
    Tensor variant = *Tensor::Create(DType::kVariant, TensorShape());
    variant.mutable_flat<Variant>()[0].tensors = {*Tensor::Zeros(DType::kFloat32, TensorShape({1000}))};
    ASSERT_OK(writer.Add("s", Tensor::FromValues<std::string>({"one", "two"})));
    ASSERT_OK(writer.Add("v", variant));
    ASSERT_OK(writer.Add("w", *Tensor::Zeros(DType::kFloat32, TensorShape({1000}))));
    ASSERT_OK(writer.Finish());
  }
  static absl::StatusOr<SalvageReport> Run(const CheckpointReaderOptions& options) {
    return SalvageTensors(kPrefix, options, [](absl::string_view, const DecodedTensor&) { return absl::OkStatus(); });
  }
  CheckpointReaderOptions Reading() {
    CheckpointReaderOptions options;
    options.read.file_system = &files_;
    return options;
  }

  MemoryFileSystem files_;
};

TEST_F(SalvageOfThree, EndsWithErrorsOfTheProcess) {
  const struct {
    FileOperation operation;
    int error;
  } kFaults[] = {{FileOperation::kOpenToRead, EMFILE},
                 {FileOperation::kOpenToRead, ENFILE},
                 {FileOperation::kOpenToRead, ENOMEM},
                 {FileOperation::kReadAt, ENOMEM}};
  CheckpointReaderOptions options = Reading();
  for (const auto& fault : kFaults) {
    int64_t n = 0;
    for (int64_t faults = 1; faults > 0;) {
      SCOPED_TRACE(absl::StrCat("operation ", ++n, " with errno ", fault.error));
      FaultyFileSystem faulty(&files_);
      faulty.FailAt(n, fault.error, FaultyFileSystem::kOnce, fault.operation);
      options.read.file_system = &faulty;
      const absl::StatusOr<SalvageReport> report = Run(options);
      faults = faulty.faults();
      if (faults > 0) {
        EXPECT_THAT(report, StatusIs(Code::kResourceExhausted, HasSubstr("/m.")));
      } else {
        EXPECT_EQ(report->saved, 3);
      }
      // The same of a reader that looks for damage.
      FaultyFileSystem again(&files_);
      again.FailAt(n, fault.error, FaultyFileSystem::kOnce, fault.operation);
      options.read.file_system = &again;
      const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open(kPrefix, options);
      if (!reader.ok()) continue;
      const absl::StatusOr<CheckpointCounts> counts =
          reader->VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; });
      EXPECT_EQ(counts.ok(), again.faults() == 0);
    }
    EXPECT_GT(n, 2);
  }
}

TEST_F(SalvageOfThree, EndsWithoutMemory) {
  CheckpointReaderOptions options = Reading();
  for (int64_t n = 1;; ++n) {
    SCOPED_TRACE(n);
    const auto allocator = MakeRef<FailingAllocator>(n);
    options.allocator = allocator;
    const absl::StatusOr<SalvageReport> report = Run(options);
    if (allocator->calls() < n) {
      EXPECT_EQ(report->saved, 3);
      EXPECT_GE(n, 4);
      break;
    }
    EXPECT_THAT(report, StatusIs(Code::kResourceExhausted, HasSubstr("no memory for")));
  }
}

// What is past a limit is lost, and the rest is not.
TEST_F(SalvageOfThree, GoesOnPastLimits) {
  CheckpointReaderOptions options = Reading();
  options.limits.max_file_decoded_bytes = 3900;
  ASSERT_OK_AND_ASSIGN(const SalvageReport report, Run(options));
  EXPECT_EQ(report.saved, 1);
  std::vector<std::string> messages;
  for (const CheckpointDamage& lost : report.lost) messages.emplace_back(lost.status.message());
  EXPECT_THAT(messages, ElementsAre(AllOf(HasSubstr("tensor \"v\""), HasSubstr("max_file_decoded_bytes is 3900")),
                                    AllOf(HasSubstr("tensor \"w\""), HasSubstr("max_file_decoded_bytes is 3900"))));
}

}  // namespace
}  // namespace tensorcask
