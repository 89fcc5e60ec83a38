// The data of a page: what a report says of files, differences and runs.

#include "tensorcask/serialize/report/report.h"

#include <zlib.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/archive/save_load.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using Json = nlohmann::json;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::HasSubstr;
using ::testing::Not;

const AllFormats& Formats() {
  static const auto* const formats = new AllFormats();
  return *formats;
}

using Tensors = std::vector<std::pair<std::string, Tensor>>;

std::unique_ptr<ArchiveReader> Saved(const TempFolder& folder, const std::string& name, const Tensors& tensors) {
  std::vector<TensorToSave> list;
  for (const auto& [key, tensor] : tensors) list.push_back({key, TensorView(tensor), {}});
  const std::string path = folder.Path(name);
  const ArchiveFormat* const format = *FormatForName(path, Formats().list());
  EXPECT_TRUE(SaveTensors(path, *format, list, {}).ok()) << path;
  return *OpenArchive(path, Formats().list());
}

Tensor Floats(const TensorShape& shape, const std::vector<float>& values) {
  Tensor tensor = *Tensor::Create(DType::kFloat32, shape);
  std::copy(values.begin(), values.end(), tensor.mutable_flat<float>().begin());
  return tensor;
}

// What the script of the page reads.
Json DataOf(const std::string& page) {
  const std::string mark = "id=\"data\">";
  const size_t start = page.find(mark) + mark.size();
  std::string packed;
  EXPECT_TRUE(absl::Base64Unescape(page.substr(start, page.find('<', start) - start), &packed));
  std::string text(64 << 20, '\0');
  uLongf size = text.size();
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(&text[0]), &size, reinterpret_cast<const Bytef*>(packed.data()),
                       packed.size()),
            Z_OK);
  return Json::parse(text.substr(0, size));
}

constexpr int kStatistics = 10;  // places in a row (internal/report_json.h)
constexpr int kDetail = 11;

TEST(MakeReport, HasStatisticsOfAllElements) {
  const TempFolder folder;
  const auto archive =
      Saved(folder, "m.npz",
            {{"w", Floats(TensorShape({2, 3}), {1, 2, 0, -4, NAN, INFINITY})}, {"x", Tensor::Scalar<int64_t>(7)}});
  const Json data = DataOf(*MakeReport(*archive));
  EXPECT_EQ(data["version"], 1);
  EXPECT_EQ(data["kind"], "file");
  const Json& tensors = data["archives"][0]["tensors"];
  ASSERT_EQ(tensors.size(), 2);
  EXPECT_EQ(tensors[0][0], "w");
  EXPECT_EQ(tensors[0][1], "float32");
  EXPECT_EQ(tensors[0][2], Json({2, 3}));
  // zeros, nans, infinities, subnormals, saturated, finite, min, max, mean, spread, dead rows and columns, group.
  EXPECT_EQ(tensors[0][kStatistics], Json({1, 1, 1, 0, 0, 4, -4, 2, -0.25, 2.277608, 0, 0, -1}));
  EXPECT_EQ(tensors[0][kDetail]["v"], Json({1, 2, 0, -4, nullptr, nullptr}));
  EXPECT_EQ(tensors[0][kDetail]["n"], Json({2, 3}));
  EXPECT_EQ(tensors[0][kDetail]["e"], Json({0, {1, 1, 1}}));
  EXPECT_EQ(tensors[1][kStatistics][6], 7);
}

TEST(MakeReport, NamesEqualTensors) {
  const TempFolder folder;
  const auto archive = Saved(folder, "m.npz",
                             {{"a", Floats(TensorShape({2}), {1, 2})},
                              {"b", Floats(TensorShape({2}), {1, 3})},
                              {"c", Floats(TensorShape({2}), {1, 2})},
                              {"d", Floats(TensorShape({1, 2}), {1, 2})}});
  const Json tensors = DataOf(*MakeReport(*archive))["archives"][0]["tensors"];
  std::vector<int> groups;
  for (const Json& row : tensors) groups.push_back(row[kStatistics][12].get<int>());
  EXPECT_EQ(groups, (std::vector<int>{0, -1, 0, -1}));
}

TEST(MakeReport, TextOfFilesIsNeverMarkup) {
  const TempFolder folder;
  const std::string name = "</script><script>alert(1)</script><!--";
  const auto archive = Saved(folder, "m.safetensors", {{name, Floats(TensorShape({1}), {1})}});
  const std::string page = *MakeReport(*archive);
  EXPECT_THAT(page, Not(HasSubstr("alert(1)")));
  EXPECT_EQ(DataOf(page)["archives"][0]["tensors"][0][0], name);
}

TEST(MakeReport, ThePolicyAllowsNoNetwork) {
  const TempFolder folder;
  const auto archive = Saved(folder, "m.npz", {{"a", Floats(TensorShape({1}), {1})}});
  const std::string page = *MakeReport(*archive);
  EXPECT_THAT(page, HasSubstr("default-src 'none'; script-src 'sha256-"));
  EXPECT_THAT(page, HasSubstr("connect-src 'none'"));
  ReportOptions live;
  live.live = true;
  EXPECT_THAT(*MakeReport(*archive, live), HasSubstr("connect-src 'self'"));
}

TEST(MakeReport, OfAnEmptyFileAndOfChosenTensors) {
  const TempFolder folder;
  const auto empty = Saved(folder, "e.safetensors", {});
  EXPECT_EQ(DataOf(*MakeReport(*empty))["archives"][0]["tensors"].size(), 0);
  const auto archive = Saved(folder, "m.npz",
                             {{"a", Floats(TensorShape({1}), {1})},
                              {"b", Tensor::FromValues<std::string>({"x", "y"})},
                              {"c", Floats(TensorShape({0, 3}), {})}});
  const Json tensors = DataOf(*MakeReport(*archive))["archives"][0]["tensors"];
  ASSERT_EQ(tensors.size(), 3);
  EXPECT_EQ(tensors[1][kStatistics], 0);
  EXPECT_EQ(tensors[2][kStatistics][5], 0);
  ReportOptions options;
  options.include = {"[ac]"};
  EXPECT_EQ(DataOf(*MakeReport(*archive, options))["archives"][0]["tensors"].size(), 2);
}

TEST(MakeReport, CanBeCancelled) {
  const TempFolder folder;
  const auto archive = Saved(folder, "m.npz", {{"a", Floats(TensorShape({1}), {1})}});
  ReportOptions options;
  options.progress = [](uint64_t) { return false; };
  EXPECT_THAT(MakeReport(*archive, options), StatusIs(absl::StatusCode::kCancelled, HasSubstr("report")));
}

TEST(MakeReport, ATensorThatCannotBeReadHasItsError) {
  const TempFolder folder;
  Saved(folder, "m.ckpt", {{"a", Floats(TensorShape({2}), {1, 2})}, {"b", Floats(TensorShape({2}), {3, 4})}});
  folder.Write("m.ckpt.data-00000-of-00001", std::string(128, '\x7f'));
  const auto archive = OpenArchive(folder.Path("m.ckpt"), Formats().list());
  ASSERT_TRUE(archive.ok()) << archive.status();
  const Json tensors = DataOf(*MakeReport(**archive))["archives"][0]["tensors"];
  EXPECT_THAT(tensors[0][9].get<std::string>(), HasSubstr("checksum"));
  EXPECT_EQ(tensors[0][kStatistics], 0);
}

TEST(MakeDiffReport, SaysWhatMoved) {
  const TempFolder folder;
  const auto a = Saved(folder, "a.npz",
                       {{"gone", Floats(TensorShape({1}), {1})},
                        {"same", Floats(TensorShape({2}), {1, 2})},
                        {"shape", Floats(TensorShape({2}), {1, 2})},
                        {"w", Floats(TensorShape({4}), {1, 2, 3, 4})}});
  const auto b = Saved(folder, "b.npz",
                       {{"new", Floats(TensorShape({1}), {1})},
                        {"same", Floats(TensorShape({2}), {1, 2})},
                        {"shape", Floats(TensorShape({1, 2}), {1, 2})},
                        {"w", Floats(TensorShape({4}), {1, 2, 6, 8})}});
  const Json data = DataOf(*MakeDiffReport(*a, *b));
  EXPECT_EQ(data["kind"], "diff");
  std::vector<std::string> kinds;
  for (const Json& pair : data["pairs"]) kinds.push_back(pair[2].get<std::string>());
  EXPECT_EQ(kinds, (std::vector<std::string>{"removed", "equal", "shape", "values", "added"}));
  const Json& moved = data["pairs"][3];
  EXPECT_EQ(moved[3], 2);    // elements that differ
  EXPECT_EQ(moved[4], 4);    // largest |a - b|
  EXPECT_EQ(moved[5], 0.5);  // by |b|
  EXPECT_EQ(moved[6], 5);    // norm of (0, 0, 3, 4)
  EXPECT_EQ(moved[8]["h"][0], 0);
  EXPECT_EQ(moved[8]["h"][1], 4);
  EXPECT_EQ(moved[8]["o"][1], 8);
}

TEST(MakeDiffReport, ComparesByValueUnderNewNames) {
  const TempFolder folder;
  Tensor doubles = *Tensor::Create(DType::kFloat64, TensorShape({2}));
  doubles.mutable_flat<double>()(0) = 1;
  doubles.mutable_flat<double>()(1) = 2;
  const auto a = Saved(folder, "a.npz", {{"model.w", Floats(TensorShape({2}), {1, 2})}});
  const auto b = Saved(folder, "b.npz", {{"w", doubles}});
  ReportOptions options;
  options.rename = [](absl::string_view name) -> absl::StatusOr<std::string> { return std::string(name.substr(6)); };
  const Json data = DataOf(*MakeDiffReport(*a, *b, options));
  ASSERT_EQ(data["pairs"].size(), 1);
  EXPECT_EQ(data["pairs"][0][2], "equal");
  EXPECT_EQ(data["pairs"][0][6], 0);
}

TEST(MakeReport, HasTheSingularValuesOfChosenMatrices) {
  const TempFolder folder;
  Tensor many = *Tensor::Zeros(DType::kFloat32, TensorShape({200, 300}));
  for (int i = 0; i < 200; ++i) many.mutable_matrix<float>()(i, i) = static_cast<float>(200 - i);
  const auto archive = Saved(folder, "m.npz",
                             {{"a.w", Floats(TensorShape({2, 2}), {3, 0, 0, 4})},
                              {"b.w", Floats(TensorShape({2, 2}), {3, 0, 0, 4})},
                              {"bad.w", Floats(TensorShape({1, 2}), {1, NAN})},
                              {"large.w", *Tensor::Zeros(DType::kUint8, TensorShape({1, 4097}))},
                              {"many.w", many},
                              {"vector.w", Floats(TensorShape({2}), {3, 4})}});
  ReportOptions options;
  options.singular_values = {"[av]*.w", "bad.w", "large.w", "m*"};
  const Json tensors = DataOf(*MakeReport(*archive, options))["archives"][0]["tensors"];
  EXPECT_EQ(tensors[0][kDetail]["s"], Json({{"n", 2}, {"rank", 2}, {"v", {4, 3}}}));
  EXPECT_FALSE(tensors[1][kDetail].contains("s"));
  EXPECT_THAT(tensors[2][kDetail]["s"].get<std::string>(), HasSubstr("NaN"));
  EXPECT_THAT(tensors[3][kDetail]["s"].get<std::string>(), HasSubstr("at most 4096"));
  const Json& some = tensors[4][kDetail]["s"]["v"];
  EXPECT_EQ(some.size(), 128);
  EXPECT_EQ(some[0], 200);
  EXPECT_EQ(some[127], 1);
  EXPECT_EQ(tensors[4][kDetail]["s"]["n"], 200);
  EXPECT_FALSE(tensors[5][kDetail].contains("s"));
}

TEST(MakeDiffReport, ChoosesByNewNames) {
  const TempFolder folder;
  const auto a =
      Saved(folder, "a.npz", {{"old.v", Floats(TensorShape({1}), {1})}, {"old.w", Floats(TensorShape({1}), {1})}});
  const auto b = Saved(folder, "b.npz", {{"v", Floats(TensorShape({1}), {1})}, {"w", Floats(TensorShape({1}), {2})}});
  ReportOptions options;
  options.rename = [](absl::string_view name) -> absl::StatusOr<std::string> { return std::string(name.substr(4)); };
  options.rename_rules = {"s/^old[.]//"};
  options.include = {"w"};
  const Json data = DataOf(*MakeDiffReport(*a, *b, options));
  ASSERT_EQ(data["pairs"].size(), 1);
  EXPECT_EQ(data["pairs"][0][2], "values");
  EXPECT_EQ(data["archives"][0]["tensors"].size(), 1);
  EXPECT_EQ(data["include"], Json({"w"}));
  EXPECT_EQ(data["rename"], Json({"s/^old[.]//"}));
}

TEST(MakeRunReport, FollowsNormsAndChanges) {
  const TempFolder folder;
  std::vector<ReportStep> steps;
  for (const int step : {1, 2, 3}) {
    const std::string name = absl::StrCat("s-", step, ".npz");
    const float size = step == 3 ? 10 : 1;
    Saved(folder, name, {{"w", Floats(TensorShape({2}), {3 * size, 4 * size})}});
    steps.push_back({folder.Path(name), absl::StrCat("step ", step)});
  }
  const auto open = [](const std::string& path) { return OpenArchive(path, Formats().list()); };
  const Json data = DataOf(*MakeRunReport(steps, open));
  EXPECT_EQ(data["kind"], "run");
  EXPECT_EQ(data["archives"].size(), 1);  // the last
  EXPECT_EQ(data["run"]["steps"][1][0], "step 2");
  const Json& series = data["run"]["tensors"][0];
  EXPECT_EQ(series[0], "w");
  EXPECT_EQ(series[1], Json({5, 5, 50}));
  EXPECT_EQ(series[2], Json({nullptr, 0, 9}));
  EXPECT_EQ(series[3], Json({4, 4, 40}));
  EXPECT_EQ(series[4], 0);  // the same in all steps
  EXPECT_EQ(series[5], 8);
  EXPECT_THAT(MakeRunReport({}, open), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("step")));
}

}  // namespace
}  // namespace tensorcask
