#include "tensorcask/serialize/checkpoint/state_file.h"

#include <cerrno>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

// As TensorFlow 2.x writes it.
constexpr char kTensorFlows[] = R"(model_checkpoint_path: "ckpt-3"
all_model_checkpoint_paths: "ckpt-1"
all_model_checkpoint_paths: "ckpt-2"
all_model_checkpoint_paths: "ckpt-3"
all_model_checkpoint_timestamps: 1568055512.2474
all_model_checkpoint_timestamps: 1568055513.0
all_model_checkpoint_timestamps: 1568055514.875
last_preserved_timestamp: 1568055511.5
)";

TEST(StateFileTest, ReadsTensorFlows) {
  MemoryFileSystem files;
  files.Put("/run/checkpoint", kTensorFlows);
  ASSERT_OK_AND_ASSIGN(const CheckpointState state, ReadCheckpointState("/run/checkpoint", &files));
  EXPECT_EQ(state.latest, "ckpt-3");
  EXPECT_THAT(state.all, ElementsAre("ckpt-1", "ckpt-2", "ckpt-3"));
  EXPECT_THAT(state.saved_at, ElementsAre(1568055512.2474, 1568055513.0, 1568055514.875));
  EXPECT_EQ(state.last_preserved_at, 1568055511.5);
}

TEST(StateFileTest, WritesWhatProtobufWrites) {
  CheckpointState state;
  state.latest = "a\"b\\c\n\t'\x01\xff";
  state.all = {"x", state.latest};
  state.saved_at = {0.1, 1568055512.2474};
  state.last_preserved_at = 1.0 / 3;
  EXPECT_EQ(checkpoint::EncodeState(state), R"(model_checkpoint_path: "a\"b\\c\n\t\'\001\377"
all_model_checkpoint_paths: "x"
all_model_checkpoint_paths: "a\"b\\c\n\t\'\001\377"
all_model_checkpoint_timestamps: 0.1
all_model_checkpoint_timestamps: 1568055512.2474
last_preserved_timestamp: 0.33333333333333331
)");
  ASSERT_OK_AND_ASSIGN(const CheckpointState back, checkpoint::ParseState(checkpoint::EncodeState(state)));
  EXPECT_EQ(back.latest, state.latest);
  EXPECT_EQ(back.all, state.all);
  EXPECT_EQ(back.saved_at, state.saved_at);
  EXPECT_EQ(back.last_preserved_at, state.last_preserved_at);
  EXPECT_EQ(checkpoint::EncodeState(CheckpointState()), "");
}

TEST(StateFileTest, TakesOtherFormsOfTheSame) {
  struct Row {
    const char* name;
    const char* text;
    const char* latest;
  };
  const Row rows[] = {{"Empty", "", ""},
                      {"NoNewline", "model_checkpoint_path: \"a\"", "a"},
                      {"Windows", "model_checkpoint_path: \"a\"\r\n", "a"},
                      {"Spaces", "  model_checkpoint_path :'a'  ", "a"},
                      {"OtherQuote", "model_checkpoint_path: 'a\"b'", "a\"b"},
                      {"Comment", "# a comment\n\nmodel_checkpoint_path: \"#a\"\n", "#a"},
                      {"UnknownField", "something_new: 7\nmodel_checkpoint_path: \"a\"\n", "a"},
                      {"LastCounts", "model_checkpoint_path: \"a\"\nmodel_checkpoint_path: \"b\"\n", "b"},
                      {"Absolute", "model_checkpoint_path: \"/models/run/ckpt-1\"\n", "/models/run/ckpt-1"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    ASSERT_OK_AND_ASSIGN(const CheckpointState state, checkpoint::ParseState(row.text));
    EXPECT_EQ(state.latest, row.latest);
    EXPECT_THAT(state.all, IsEmpty());
  }
}

TEST(StateFileTest, RefusesWhatIsNone) {
  struct Row {
    const char* name;
    std::string text;
    const char* says;
  };
  const Row rows[] = {{"Garbage", "\xff\xfe", "line 1 is \"\\xff\\xfe\""},
                      {"Nul", std::string("\0", 1), "line 1"},
                      {"NoValue", "\nmodel_checkpoint_path:\n", "line 2"},
                      {"NoName", ": \"a\"", "line 1"},
                      {"NoQuotes", "model_checkpoint_path: a", "line 1"},
                      {"OneQuote", "model_checkpoint_path: \"", "line 1"},
                      {"OpenQuote", "model_checkpoint_path: \"a", "line 1"},
                      {"EscapedEnd", "model_checkpoint_path: \"a\\\"", "line 1"},
                      {"TwoTexts", "model_checkpoint_path: \"a\" \"b\"", "line 1"},
                      {"BadEscape", "model_checkpoint_path: \"\\q\"", "line 1"},
                      {"NotATime", "last_preserved_timestamp: soon", "line 1"},
                      {"Times", "all_model_checkpoint_timestamps: 1\n", "1 timestamps of 0 checkpoints"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    MemoryFileSystem files;
    files.Put("/checkpoint", row.text);
    EXPECT_THAT(ReadCheckpointState("/checkpoint", &files),
                StatusIs(Code::kDataLoss, ::testing::AllOf(HasSubstr("/checkpoint: "), HasSubstr(row.says))));
  }
  MemoryFileSystem files;
  EXPECT_THAT(ReadCheckpointState("/checkpoint", &files), StatusIs(Code::kNotFound, HasSubstr("/checkpoint")));
}

TEST(StateFileTest, EachPrefixAndEachChangedByteIsReadOrRefused) {
  const std::string text = kTensorFlows;
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char c : {'\0', '"', '\\', '\n', ':', '\xff'}) {
      std::string changed = text;
      changed[i] = c;
      for (const std::string& bytes : {changed, changed.substr(0, i + 1)}) {
        const absl::StatusOr<CheckpointState> state = checkpoint::ParseState(bytes);
        if (!state.ok()) {
          EXPECT_EQ(state.status().code(), Code::kDataLoss);
        }
      }
    }
  }
}

TEST(StateFileTest, IsReplacedAtomically) {
  for (const auto duration : {FaultyFileSystem::kOnce, FaultyFileSystem::kForEver}) {
    for (int64_t n = 1;; ++n) {
      SCOPED_TRACE(n);
      MemoryFileSystem memory;
      CheckpointState state;
      state.latest = "old";
      ASSERT_OK(WriteCheckpointState("/checkpoint", state, true, &memory));
      FaultyFileSystem files(&memory);
      files.FailAt(n, EIO, duration);
      state.latest = "new";
      const absl::Status written = WriteCheckpointState("/checkpoint", state, true, &files);
      ASSERT_OK_AND_ASSIGN(const CheckpointState found, ReadCheckpointState("/checkpoint", &memory));
      EXPECT_TRUE(found.latest == "new" || (!written.ok() && found.latest == "old")) << found.latest;
      if (files.faults() == 0) {
        EXPECT_OK(written);
        EXPECT_EQ(files.operations(FileOperation::kSync), 1);
        break;
      }
    }
  }
}

}  // namespace
}  // namespace tensorcask
