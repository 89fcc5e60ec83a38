// Saves that run out of memory: each allocation of a save fails in turn, once or from then on. A save never reports
// success for a checkpoint that cannot be read, never crashes and never hangs. Replaces operator new: a program of its
// own.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/failing_new.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FailingNew;
using ::tensorcask::testing::TempFolder;

enum class Outcome { kSaved, kFailed, kThrew };

// What has become of one call that may run out of memory.
template <typename Call>
Outcome OutcomeOf(Call&& call) {
  try {
    return call().ok() ? Outcome::kSaved : Outcome::kFailed;
  } catch (const std::bad_alloc&) {
    return Outcome::kThrew;
  }
}

// Fails the test if there is an index and the checkpoint is not whole, or lacks a tensor; or if `must_exist` and there
// is no index.
void ExpectWhole(const std::string& prefix, size_t num_tensors, bool must_exist) {
  std::error_code ignored;
  const bool exists = std::filesystem::exists(prefix + ".index", ignored);
  EXPECT_TRUE(exists || !must_exist) << "saved, but there is no index";
  if (!exists) return;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(prefix));
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, reader.entries());
  EXPECT_EQ(entries.size(), num_tensors);
  ASSERT_OK(reader.VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; }).status());
}

// Saves again and again to `prefix`, each time with another allocation that fails.
void FailEachAllocation(const std::string& folder, const std::string& prefix, size_t num_tensors,
                        const std::function<absl::Status()>& save) {
  ASSERT_OK(save());  // what is made once in a process is made here
  for (const FailingNew::Extent extent : {FailingNew::kOnce, FailingNew::kFromThenOn}) {
    for (int64_t n = 0;; ++n) {
      SCOPED_TRACE(absl::StrCat("allocation ", n, extent == FailingNew::kOnce ? "" : " and all later ones"));
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
      std::filesystem::create_directory(folder, ignored);
      Outcome outcome = Outcome::kFailed;
      bool has_failed = false;
      {
        const FailingNew failing(n, extent);
        outcome = OutcomeOf(save);
        has_failed = failing.has_failed();
      }
      ExpectWhole(prefix, num_tensors, outcome == Outcome::kSaved);
      if (::testing::Test::HasFailure()) return;
      if (!has_failed) {
        EXPECT_EQ(outcome, Outcome::kSaved);
        ::testing::Test::RecordProperty("allocations", std::to_string(n));
        break;
      }
    }
  }
}

struct Named {
  std::string name;
  TensorView view;
};

// Tensors of each kind; names are longer than a std::string stores in place.
std::vector<Named> Samples() {
  std::vector<Named> samples;
  Tensor floats = *Tensor::Create(DType::kFloat32, TensorShape({200, 200}));  // three chunks
  std::iota(floats.mutable_data<float>(), floats.mutable_data<float>() + floats.num_elements(), 0.0f);
  samples.push_back({"layers/0/attention/query/kernel", floats});
  samples.push_back({"layers/0/attention/query/kernel/transposed", *TensorView(floats).Transpose(0, 1)});
  samples.push_back({"layers/0/attention/again/the/same", floats});
  Tensor words = *Tensor::Create(DType::kString, TensorShape({50}));
  for (int i = 0; i < 50; ++i) words.mutable_data<std::string>()[i] = absl::StrCat("a word of some length, number ", i);
  samples.push_back({"vocabulary/words/of/the/model", words});
  samples.push_back({"optimizer/steps/that/were/taken", *Tensor::Create(DType::kInt64, TensorShape({}))});
  return samples;
}

struct Kind {
  int num_threads = 1;
  int num_shards = 1;
  PayloadLevel level = PayloadLevel::kStored;
  bool background = false;
};

absl::Status SaveSamples(const std::string& prefix, const std::vector<Named>& samples, const Kind& kind) {
  CheckpointWriterOptions options;
  options.sync = false;
  options.num_threads = kind.num_threads;
  options.num_shards = kind.num_shards;
  options.payload.level = kind.level;
  options.payload.chunk_bytes = 64 << 10;
  options.background = kind.background;
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create(prefix, options));
  int shard = 0;
  bool threw = false;
  for (const Named& sample : samples) {
    CheckpointAddOptions add;
    add.shard = shard++ % kind.num_shards;
    add.metadata.name = "a name in metadata, which is stored with it";
    // A caller that swallows what Add threw must not get a checkpoint without the tensor.
    try {
      CASK_RETURN_IF_ERROR(writer.Add(sample.name, sample.view, add));
    } catch (const std::bad_alloc&) {
      threw = true;
    }
  }
  if (threw && !kind.background) {
    EXPECT_FALSE(writer.Finish().ok()) << "Add threw, and Finish is OK";
    throw std::bad_alloc();
  }
  if (!kind.background) return writer.Finish();
  CASK_ASSIGN_OR_RETURN(BackgroundSave save, writer.FinishInBackground());
  EXPECT_FALSE(threw) << "Add threw, and FinishInBackground is OK";
  return save.Wait();
}

class WriterMemory : public ::testing::Test {
 protected:
  void FailEachAllocationOf(const Kind& kind) {
    const std::string prefix = folder_.Path("new/model-with-a-long-name.ckpt");
    const std::vector<Named> samples = Samples();
    std::filesystem::create_directory(folder_.Path("new"));
    FailEachAllocation(folder_.Path("new"), prefix, samples.size(), [&] { return SaveSamples(prefix, samples, kind); });
  }

  const TempFolder folder_;
};

TEST_F(WriterMemory, OfPlainTensors) { FailEachAllocationOf({}); }
TEST_F(WriterMemory, OfShards) { FailEachAllocationOf({1, 3}); }
TEST_F(WriterMemory, OfEncodedTensors) { FailEachAllocationOf({1, 1, PayloadLevel::kDefault}); }
TEST_F(WriterMemory, OfThreads) { FailEachAllocationOf({3, 3}); }
TEST_F(WriterMemory, OfThreadsThatEncode) { FailEachAllocationOf({4, 2, PayloadLevel::kDefault}); }
TEST_F(WriterMemory, OfBackgroundSaves) { FailEachAllocationOf({1, 1, PayloadLevel::kStored, true}); }
TEST_F(WriterMemory, OfBackgroundSavesWithThreads) { FailEachAllocationOf({3, 2, PayloadLevel::kDefault, true}); }

TEST_F(WriterMemory, OfSlices) {
  const std::string prefix = folder_.Path("new/model-with-a-long-name.ckpt");
  std::filesystem::create_directory(folder_.Path("new"));
  const Tensor half = *Tensor::Zeros(DType::kFloat32, TensorShape({2, 3}));
  FailEachAllocation(folder_.Path("new"), prefix, 2, [&]() -> absl::Status {
    CheckpointWriterOptions options;
    options.sync = false;
    CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create(prefix, options));
    bool threw = false;
    for (const char* const name : {"embedding/of/all/the/words/there/are", "embedding/of/all/positions/there/are"}) {
      for (const int64_t row : {0, 2}) {
        try {
          const TensorSlice slice = *TensorSlice::Create({{row, 2}, {0, 3}});
          CASK_RETURN_IF_ERROR(writer.AddSlice(name, TensorShape({4, 3}), slice, half));
        } catch (const std::bad_alloc&) {
          threw = true;
        }
      }
    }
    const absl::Status finished = writer.Finish();
    EXPECT_FALSE(threw && finished.ok()) << "AddSlice threw, and Finish is OK";
    return finished;
  });
}

TEST_F(WriterMemory, OfBlocks) {
  const Tensor half = *Tensor::Zeros(DType::kFloat32, TensorShape({2, 3}));
  for (const int num_threads : {1, 2}) {
    const std::string folder = folder_.Path(absl::StrCat("new", num_threads));
    const std::string prefix = folder + "/model-with-a-long-name.ckpt";
    std::filesystem::create_directory(folder);
    FailEachAllocation(folder, prefix, 2, [&]() -> absl::Status {
      CheckpointWriterOptions options;
      options.sync = false;
      options.num_threads = num_threads;
      CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create(prefix, options));
      CheckpointAddOptions add;
      add.metadata.name = "a name in metadata, which is stored with it";
      bool threw = false;
      for (const char* const name : {"embedding/of/all/the/words/there/are", "embedding/of/all/positions/there/are"}) {
        for (const int block : {0, 1, 2}) {
          try {
            CASK_RETURN_IF_ERROR(block == 0 ? writer.BeginTensor(name, DType::kFloat32, TensorShape({4, 3}), add)
                                            : writer.AddBlock(half));
          } catch (const std::bad_alloc&) {
            threw = true;
          }
        }
      }
      const absl::Status finished = writer.Finish();
      EXPECT_FALSE(threw && finished.ok()) << "a call threw, and Finish is OK";
      return finished;
    });
  }
}

// Many tensors: the tables of names grow several times.
TEST_F(WriterMemory, OfManyTensors) {
  const Tensor scalar = *Tensor::Zeros(DType::kFloat32, TensorShape({}));
  std::vector<Named> samples;
  for (int i = 0; i < 40; ++i) samples.push_back({absl::StrCat("a/name/that/takes/memory/", i), scalar});
  const std::string prefix = folder_.Path("new/model-with-a-long-name.ckpt");
  std::filesystem::create_directory(folder_.Path("new"));
  FailEachAllocation(folder_.Path("new"), prefix, samples.size(), [&] { return SaveSamples(prefix, samples, {}); });
}

// A manager whose save ran out of memory can be destroyed, and saves again.
TEST_F(WriterMemory, OfAManager) {
  const Tensor tensor = *Tensor::Zeros(DType::kFloat32, TensorShape({10}));
  const auto add = [&](CheckpointWriter& writer) { return writer.Add("layers/0/attention/query/kernel", tensor); };
  for (const bool background : {false, true}) {
    for (int64_t n = 0;; ++n) {
      SCOPED_TRACE(absl::StrCat(background ? "in the background, " : "", "allocation ", n));
      const std::string path = folder_.Path(absl::StrCat("run-", background, "-", n));
      CheckpointManagerOptions options;
      options.writer.sync = false;
      options.keep_last = 1;
      bool has_failed = false;
      Outcome outcome = Outcome::kFailed;
      {
        ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open(path, options));
        ASSERT_OK(manager.Save(1, add));
        {
          const FailingNew failing(n, FailingNew::kOnce);
          outcome = OutcomeOf([&]() -> absl::Status {
            if (!background) return manager.Save(2, add);
            CASK_ASSIGN_OR_RETURN(BackgroundSave save, manager.SaveInBackground(2, add));
            return save.Wait();
          });
          has_failed = failing.has_failed();
        }
        ExpectWhole(manager.PrefixOf(2), 1, outcome == Outcome::kSaved);
        ASSERT_OK(manager.Save(3, add));
        ExpectWhole(manager.PrefixOf(3), 1, /*must_exist=*/true);
      }
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
      if (HasFailure()) return;
      if (!has_failed) {
        EXPECT_EQ(outcome, Outcome::kSaved);
        break;
      }
    }
  }
}

}  // namespace
}  // namespace tensorcask
