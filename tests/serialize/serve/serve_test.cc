// A client and a service that talk without a socket, and peers of either that lie.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/serve/serve_client.h"
#include "tensorcask/serialize/serve/serve_service.h"
#include "tensorcask/serialize/serve/served_tensor.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;
using Code = absl::StatusCode;
using Reply = std::vector<DecodedTensor>;

ServedTensor Describe(const std::string& name, const TensorView& view) {
  ServedTensor tensor;
  tensor.name = name;
  tensor.dtype = view.dtype();
  tensor.shape = view.shape();
  tensor.encoding = "plain";
  tensor.stored_bytes = static_cast<uint64_t>(view.num_elements()) * 4;
  return tensor;
}

class Views final : public ServedTensors {
 public:
  explicit Views(std::vector<TensorView> views) : views_(std::move(views)) {}

  absl::StatusOr<DecodedTensor> Read(size_t index, const TensorSlice* slice) const override {
    DecodedTensor tensor;
    tensor.view = views_[index];
    if (slice == nullptr) {
      tensor.metadata.name = "said by the file";
    } else {
      CASK_ASSIGN_OR_RETURN(tensor.view, tensor.view.Slice(*slice));
    }
    return tensor;
  }
  uint64_t ReadBytes(size_t index) const override { return 1000 + index; }

 private:
  std::vector<TensorView> views_;
};

absl::StatusOr<std::vector<ServedTensor>> ListOf(const ServeClient& client) {
  std::vector<ServedTensor> list;
  CASK_RETURN_IF_ERROR(client.List(
      [&](ServedTensor tensor) {
        list.push_back(std::move(tensor));
        return absl::OkStatus();
      },
      [](const std::string&) { return absl::OkStatus(); }));
  return list;
}

ServeClient ClientOf(const ServeService& service) {
  return ServeClient("here",
                     [&](const ServeRequest& request) { return service.Answer(request.topic, request.tensors); });
}

class Serve : public ::testing::Test {
 protected:
  const Tensor matrix_ = Tensor::FromValues<int32_t>({{1, 2, 3}, {4, 5, 6}});
  const Tensor scalar_ = Tensor::Scalar<float>(2.5F);
  const Tensor words_ = Tensor::FromValues<std::string>({"a", "bc"});
  // In the order of the file, which is not that of the names.
  const Views views_{{words_, *TensorView(matrix_).Transpose(0, 1), scalar_}};
  std::vector<ServedTensor> Described() const {
    std::vector<ServedTensor> tensors = {Describe("w\xff", words_), Describe("m", *TensorView(matrix_).Transpose(0, 1)),
                                         Describe("", scalar_)};
    tensors[0].encoding = "encoded high delta";
    tensors[0].decoded_bytes = 0;
    tensors[1].strides = {1, 3};
    tensors[1].has_metadata = true;
    return tensors;
  }
};

// ---- What comes through ---------------------------------------------------------------------------------------------

TEST_F(Serve, ListsWhatIsServedInTheOrderOfNames) {
  ASSERT_OK_AND_ASSIGN(const ServeService service, ServeService::Create(Described(), &views_));
  EXPECT_EQ(service.num_tensors(), 3);
  ASSERT_OK_AND_ASSIGN(const std::vector<ServedTensor> list, ListOf(ClientOf(service)));
  ASSERT_EQ(list.size(), 3);
  EXPECT_EQ(list[0].name, "");
  EXPECT_EQ(list[0].dtype, DType::kFloat32);
  EXPECT_EQ(list[0].shape, TensorShape());
  EXPECT_EQ(list[0].stored_bytes, 4);
  EXPECT_EQ(list[0].decoded_bytes, std::nullopt);
  EXPECT_FALSE(list[0].has_metadata);
  EXPECT_EQ(list[1].name, "m");
  EXPECT_EQ(list[1].shape, TensorShape({3, 2}));
  EXPECT_THAT(list[1].strides, ElementsAre(1, 3));
  EXPECT_TRUE(list[1].has_metadata);
  EXPECT_EQ(list[2].name, "w\xff");
  EXPECT_EQ(list[2].dtype, DType::kString);
  EXPECT_EQ(list[2].encoding, "encoded high delta");
  EXPECT_EQ(list[2].decoded_bytes, 0);
  EXPECT_TRUE(list[2].strides.empty());
}

TEST_F(Serve, AListMayBeEmpty) {
  ASSERT_OK_AND_ASSIGN(const ServeService service, ServeService::Create({}, &views_));
  ASSERT_OK_AND_ASSIGN(const std::vector<ServedTensor> list, ListOf(ClientOf(service)));
  EXPECT_TRUE(list.empty());
}

TEST_F(Serve, PullsTensorsAndParts) {
  ASSERT_OK_AND_ASSIGN(const ServeService service, ServeService::Create(Described(), &views_));
  const ServeClient client = ClientOf(service);
  ASSERT_OK_AND_ASSIGN(const std::vector<ServedTensor> list, ListOf(client));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor whole, client.Pull(list[1]));
  EXPECT_EQ(whole.metadata.name, "said by the file");
  EXPECT_EQ(SummarizeValue(whole.view), SummarizeValue(*TensorView(matrix_).Transpose(0, 1)));
  ASSERT_OK_AND_ASSIGN(const DecodedTensor part, client.Pull(list[1], *TensorSlice::Parse("1,2:0,1")));
  EXPECT_EQ(part.view.shape(), TensorShape({2, 1}));
  EXPECT_EQ(SummarizeValue(part.view), SummarizeValue(Tensor::FromValues<int32_t>({{2}, {3}})));
  EXPECT_THAT(client.Pull(list[1], *TensorSlice::Parse("2,2:-")),
              StatusIs(Code::kOutOfRange, HasSubstr("here: tensor \"m\"")));
}

TEST_F(Serve, SaysHowMuchMemoryAnAnswerTakes) {
  ASSERT_OK_AND_ASSIGN(const ServeService service, ServeService::Create(Described(), &views_));
  const DecodedTensor name = {Tensor::FromValues<std::string>({"m"}), {}};
  const DecodedTensor unknown = {Tensor::FromValues<std::string>({"v"}), {}};
  EXPECT_EQ(service.AnswerBytes("pull", {name}), 1001);
  EXPECT_EQ(service.AnswerBytes("pull", {unknown}), 0);
  EXPECT_EQ(service.AnswerBytes("pull", {}), 0);
  EXPECT_EQ(service.AnswerBytes("other", {name}), 0);
  EXPECT_GT(service.AnswerBytes("list", {}), 3 * 40);
}

TEST_F(Serve, ANameComesOnce) {
  EXPECT_THAT(ServeService::Create({Describe("w", scalar_), Describe("w", words_)}, &views_),
              StatusIs(Code::kAlreadyExists, HasSubstr("two tensors are called \"w\"")));
}

// ---- Other versions -------------------------------------------------------------------------------------------------

TEST_F(Serve, AClientOfAnotherVersionIsRefusedWithBothVersions) {
  ASSERT_OK_AND_ASSIGN(const ServeService service, ServeService::Create(Described(), &views_));
  for (const int64_t version : {int64_t{0}, int64_t{2}, int64_t{-1}, INT64_MAX}) {
    const DecodedTensor said = {Tensor::Scalar<int64_t>(version), {}};
    EXPECT_THAT(service.Answer("list", {said}),
                StatusIs(Code::kUnimplemented, HasSubstr("the client speaks version " + std::to_string(version) +
                                                         " of the protocol of served tensors, this server version 1; "
                                                         "use the same version of Tensorcask on both sides")));
  }
  const DecodedTensor text = {Tensor::Scalar<std::string>("1"), {}};
  for (const Reply& said : {Reply(), Reply({text})}) {
    EXPECT_THAT(service.Answer("list", said),
                StatusIs(Code::kInvalidArgument, HasSubstr("the client names no version")));
  }
}

TEST_F(Serve, AServerOfAnotherVersionIsRefusedWithBothVersions) {
  for (const int64_t version : {0, 2}) {
    const ServeClient client("here", [&](const ServeRequest&) {
      return Reply({{Tensor::Scalar<int64_t>(version), {}}});
    });
    EXPECT_THAT(ListOf(client),
                StatusIs(Code::kUnimplemented, HasSubstr("the server speaks version " + std::to_string(version) +
                                                         " of the protocol of served tensors, this client version 1")));
  }
  const DecodedTensor rows = {*Tensor::Create(DType::kString, TensorShape({1, 8})), {}};
  const ServeClient client("here", [&](const ServeRequest&) { return Reply({rows}); });
  EXPECT_THAT(ListOf(client),
              StatusIs(Code::kDataLoss, HasSubstr("here: the server's list: the server names no version")));
}

// ---- Servers that lie -----------------------------------------------------------------------------------------------

// A list of "a", int32 [2,3] with strides, and "b", a float32 scalar, with one note.
Reply GoodList() {
  return {{Tensor::Scalar<int64_t>(1), {}},
          {Tensor::FromValues<std::string>({"a", "b"}), {}},
          {Tensor::FromValues<std::string>({"plain", "sliced"}), {}},
          {Tensor::FromValues<int64_t>({{3, 2, 24, -1, 3}, {1, 0, 4, 4, 0}}), {}},
          {Tensor::FromValues<int64_t>({2, 3, 1, 2}), {}},
          {Tensor::FromValues<std::string>({"f: not served: c"}), {}}};
}

struct LieCase {
  const char* name;
  std::function<void(Reply*)> change;
  const char* says;
};

void SetNumber(int64_t row, int64_t column, int64_t value, Reply* list) {
  Tensor numbers = *(*list)[3].view.ToTensor()->Clone();
  numbers.mutable_data<int64_t>()[row * 5 + column] = value;
  (*list)[3].view = numbers;
}

const LieCase kLies[] = {
    {"OneTensorLess", [](Reply* list) { list->pop_back(); }, "5 tensors; wanted 6"},
    {"OneTensorMore", [](Reply* list) { list->push_back(list->back()); }, "7 tensors; wanted 6"},
    {"NamesAreNumbers", [](Reply* list) { (*list)[1] = (*list)[4]; }, "tensor 1 is int64 [4]; wanted strings [n]"},
    {"NamesHaveTwoAxes",
     [](Reply* list) {
       (*list)[1].view = Tensor::FromValues<std::string>({{"a", "b"}});
     },
     "wanted strings [n]"},
    {"OneNameLess", [](Reply* list) { (*list)[1].view = Tensor::FromValues<std::string>({"a"}); },
     "tensor 2 is string [2]; wanted strings [1]"},
    {"OneEncodingLess", [](Reply* list) { (*list)[2].view = Tensor::FromValues<std::string>({"plain"}); },
     "wanted strings [2]"},
    {"NumbersOfOneTensor",
     [](Reply* list) {
       (*list)[3].view = Tensor::FromValues<int64_t>({{3, 2, 24, -1, 3}});
     },
     "tensor 3 is int64 [1,5]; wanted int64 [2,5]"},
    {"SixColumns",
     [](Reply* list) {
       (*list)[3].view = *Tensor::Zeros(DType::kInt64, TensorShape({2, 6}));
     },
     "wanted int64 [2,5]"},
    {"NumbersAreInt32",
     [](Reply* list) {
       (*list)[3].view = *Tensor::Zeros(DType::kInt32, TensorShape({2, 5}));
     },
     "wanted int64 [2,5]"},
    {"SizesAreText", [](Reply* list) { (*list)[4] = (*list)[1]; }, "tensor 4 is string [2]; wanted int64 [m]"},
    {"NotesAreNumbers", [](Reply* list) { (*list)[5] = (*list)[4]; }, "tensor 5 is int64 [4]; wanted strings [k]"},
    {"NotesHaveNoAxis", [](Reply* list) { (*list)[5].view = Tensor::Scalar<std::string>("a"); },
     "tensor 5 is string []; wanted strings [k]"},
    {"ANameTwice",
     [](Reply* list) {
       (*list)[1].view = Tensor::FromValues<std::string>({"a", "a"});
     },
     "row 1: \"a\" comes after \"a\"; names must come once and in order"},
    {"NamesOutOfOrder",
     [](Reply* list) {
       (*list)[1].view = Tensor::FromValues<std::string>({"b", "a"});
     },
     "must come once and in order"},
    {"NoEncoding",
     [](Reply* list) {
       (*list)[2].view = Tensor::FromValues<std::string>({"plain", ""});
     },
     "row 1: \"\" is not an encoding"},
    {"AnEscape",
     [](Reply* list) {
       (*list)[2].view = Tensor::FromValues<std::string>({"a\x1b[2J", "plain"});
     },
     "row 0: \"a\\x1b[2J\" is not an encoding"},
    {"ALongEncoding",
     [](Reply* list) {
       (*list)[2].view = Tensor::FromValues<std::string>({std::string(65, 'x'), "plain"});
     },
     "is not an encoding: wanted 1 to 64"},
    {"NoSuchDType", [](Reply* list) { SetNumber(0, 0, 9999, list); }, "row 0: no dtype has the number 9999"},
    {"TheInvalidDType", [](Reply* list) { SetNumber(0, 0, 0, list); }, "no dtype has the number 0"},
    {"ADTypeBeyondInt32", [](Reply* list) { SetNumber(1, 0, (int64_t{1} << 32) + 1, list); }, "row 1: no dtype"},
    {"ANegativeRank", [](Reply* list) { SetNumber(0, 1, -1, list); }, "rank -1; wanted 0 to 254"},
    {"AHugeRank", [](Reply* list) { SetNumber(0, 1, INT64_MAX, list); }, "wanted 0 to 254"},
    {"MoreAxesThanSizes", [](Reply* list) { SetNumber(0, 1, 3, list); }, "row 0: has 1 sizes left; wanted 3"},
    {"ASizeTooMany", [](Reply* list) { SetNumber(0, 1, 1, list); }, "2 sizes too many"},
    {"NegativeStoredBytes", [](Reply* list) { SetNumber(1, 2, -5, list); }, "row 1: -5 stored bytes"},
    {"NegativeDecodedBytes", [](Reply* list) { SetNumber(1, 3, -2, list); }, "-2 decoded bytes"},
    {"AnUnknownFlag", [](Reply* list) { SetNumber(0, 4, 7, list); }, "unknown flags 7"},
    {"NegativeFlags", [](Reply* list) { SetNumber(0, 4, -1, list); }, "unknown flags -1"},
    {"ANegativeSize",
     [](Reply* list) {
       (*list)[4].view = Tensor::FromValues<int64_t>({-2, 3, 1, 2});
     },
     "row 0: "},
    {"SizesThatOverflow",
     [](Reply* list) {
       (*list)[4].view = Tensor::FromValues<int64_t>({INT64_MAX, 3, 1, 2});
     },
     "row 0: "},
    // One number in memory claims to be 2^40 of them.
    {"SizesWithoutMemory",
     [](Reply* list) { (*list)[4].view = *TensorView(Tensor::FromValues<int64_t>({1})).Expand({int64_t{1} << 40}); },
     " sizes too many"},
};

class ListRejects : public ::testing::TestWithParam<LieCase> {};

TEST_P(ListRejects, AsDataLossThatNamesTheServer) {
  const ServeClient client("here", [&](const ServeRequest&) {
    Reply list = GoodList();
    GetParam().change(&list);
    return list;
  });
  EXPECT_THAT(ListOf(client), StatusIs(Code::kDataLoss, HasSubstr(GetParam().says)));
  EXPECT_THAT(ListOf(client), StatusIs(Code::kDataLoss, HasSubstr("here: the server's list: ")));
}

INSTANTIATE_TEST_SUITE_P(Lies, ListRejects, ::testing::ValuesIn(kLies),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ServeClient, TakesTheGoodList) {
  const ServeClient client("here", [](const ServeRequest& request) {
    EXPECT_EQ(request.topic, "list");
    return GoodList();
  });
  ASSERT_OK_AND_ASSIGN(const std::vector<ServedTensor> list, ListOf(client));
  ASSERT_EQ(list.size(), 2);
  EXPECT_EQ(list[0].shape, TensorShape({2, 3}));
  EXPECT_THAT(list[0].strides, ElementsAre(1, 2));
  EXPECT_EQ(list[1].decoded_bytes, 4);
}

TEST_F(Serve, NotesComeInTheirOrderAfterTheTensors) {
  ASSERT_OK_AND_ASSIGN(const ServeService service, ServeService::Create(Described(), &views_, {"b", "", "a"}));
  std::vector<std::string> said;
  ASSERT_OK(ClientOf(service).List(
      [&](ServedTensor tensor) {
        EXPECT_TRUE(said.empty()) << tensor.name;
        return absl::OkStatus();
      },
      [&](const std::string& note) {
        said.push_back(note);
        return absl::OkStatus();
      }));
  EXPECT_THAT(said, ElementsAre("b", "", "a"));
}

TEST(ServeClient, AnErrorOfTheCallerEndsTheList) {
  const ServeClient client("here", [](const ServeRequest&) { return GoodList(); });
  int count = 0;
  const auto enough = [&](const auto&) -> absl::Status {
    ++count;
    return absl::ResourceExhaustedError("enough");
  };
  const auto more = [](const auto&) { return absl::OkStatus(); };
  EXPECT_THAT(client.List(enough, more), StatusIs(Code::kResourceExhausted, HasSubstr("enough")));
  EXPECT_EQ(count, 1);
  EXPECT_THAT(client.List(more, enough), StatusIs(Code::kResourceExhausted, HasSubstr("enough")));
  EXPECT_EQ(count, 2);
}

TEST(ServeClient, AnAnswerIsTheTensorOfTheList) {
  const ServedTensor wanted = Describe("w", Tensor::FromValues<float>({1, 2}));
  Reply reply;
  const ServeClient client("here", [&](const ServeRequest&) { return reply; });
  EXPECT_THAT(client.Pull(wanted),
              StatusIs(Code::kDataLoss, HasSubstr("here: tensor \"w\": the answer has 0 tensors")));
  for (const Tensor& other :
       {Tensor::Scalar<float>(1), Tensor::FromValues<int32_t>({1, 2}), Tensor::FromValues<float>({1, 2, 3})}) {
    reply = {{other, {}}};
    EXPECT_THAT(client.Pull(wanted), StatusIs(Code::kDataLoss, HasSubstr("the server's list says float32 [2]")));
  }
  reply = {{Tensor::FromValues<float>({1, 2}), {}}};
  EXPECT_OK(client.Pull(wanted).status());
  EXPECT_THAT(client.Pull(wanted, *TensorSlice::Parse("0,1")),
              StatusIs(Code::kDataLoss, HasSubstr("the server's list says float32 [1]")));
}

// ---- Clients that lie -----------------------------------------------------------------------------------------------

TEST_F(Serve, RequestsThatAreNone) {
  ASSERT_OK_AND_ASSIGN(const ServeService service, ServeService::Create(Described(), &views_));
  const auto pull = [&](const TensorView& what) { return service.Answer("pull", {DecodedTensor{what, {}}}); };
  EXPECT_THAT(service.Answer("push", {}), StatusIs(Code::kInvalidArgument, HasSubstr("not \"push\"")));
  EXPECT_THAT(service.Answer("pull", {}), StatusIs(Code::kInvalidArgument, HasSubstr("strings [1] or [2]")));
  EXPECT_THAT(pull(scalar_), StatusIs(Code::kInvalidArgument, HasSubstr("strings [1] or [2]")));
  EXPECT_THAT(pull(Tensor::Scalar<std::string>("m")),
              StatusIs(Code::kInvalidArgument, HasSubstr("strings [1] or [2]")));
  EXPECT_THAT(pull(Tensor::FromValues<std::string>({"m", "-", "-"})),
              StatusIs(Code::kInvalidArgument, HasSubstr("strings [1] or [2]")));
  EXPECT_THAT(pull(Tensor::FromValues<std::string>({"v"})), StatusIs(Code::kNotFound, HasSubstr("no tensor \"v\"")));
  EXPECT_THAT(pull(Tensor::FromValues<std::string>({"m", "what?"})),
              StatusIs(Code::kInvalidArgument, HasSubstr("what?")));
  EXPECT_THAT(pull(Tensor::FromValues<std::string>({"m", "9,9:-"})), StatusIs(Code::kOutOfRange, HasSubstr("axis 0")));
}

}  // namespace
}  // namespace tensorcask
