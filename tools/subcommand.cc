#include "tensorcask/tools/subcommand.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "tensorcask/serialize/payload/payload_head.h"
#include "tensorcask/tensor/base/glob.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::tools {
namespace {
constexpr char kMisuseUrl[] = "tensorcask/misuse";

CLI::IsMember IsFormat() { return CLI::IsMember(std::vector<std::string>(std::begin(kFormats), std::end(kFormats))); }

}  // namespace

absl::Status Misuse(absl::string_view message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kMisuseUrl, absl::Cord());
  return status;
}

bool IsMisuse(const absl::Status& status) { return status.GetPayload(kMisuseUrl).has_value(); }

bool MatchesAny(const std::string& name, const std::vector<std::string>& globs) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) { return MatchesGlob(glob, name); });
}

std::vector<TensorInfo> Select(const std::vector<TensorInfo>& tensors, const std::vector<std::string>& include,
                               const std::vector<std::string>& exclude) {
  std::vector<TensorInfo> selected;
  for (const TensorInfo& info : tensors) {
    if (!include.empty() && !MatchesAny(info.name, include)) continue;
    if (!MatchesAny(info.name, exclude)) selected.push_back(info);
  }
  std::stable_sort(selected.begin(), selected.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.shard, a.offset) < std::tie(b.shard, b.offset);
  });
  return selected;
}

absl::StatusOr<DecodedTensor> ReadToCopy(const Input& input, const TensorInfo& info, bool allow_loss) {
  absl::StatusOr<DecodedTensor> tensor = input.ReadWithMetadata(info.name);
  if (tensor.ok() || !info.has_metadata || !allow_loss) return tensor;
  DecodedTensor bare;
  CASK_ASSIGN_OR_RETURN(bare.view, input.Read(info.name));
  return bare;
}

void AddInputOptions(CLI::App& app, InputOptions* options) {
  app.add_option("--format", options->format, "What PATH is, where its bytes cannot tell")
      ->check(IsFormat())
      ->type_name("FORMAT");
  AddBaseOption(app, &options->base);
}

void AddBaseOption(CLI::App& app, std::string* base) {
  app.add_option("--base", *base, "The checkpoint that tensors stored as deltas are to")->type_name("PATH");
}

void AddOutputOptions(CLI::App& app, std::string* to, OutputOptions* options) {
  app.add_option("--to", *to, "The format of DST, where its name does not tell")
      ->check(IsFormat())
      ->type_name("FORMAT");
  app.add_option_function<std::string>(
         "--level", [options](const std::string& name) { options->level = *ParsePayloadLevel(name); },
         "How hard to compress: stored (default: as plain elements), default or high; TensorFlow reads stored alone")
      ->check(CLI::IsMember({"stored", "default", "high"}))
      ->type_name("LEVEL");
  app.add_option("--alignment", options->alignment,
                 "Each tensor starts at a multiple of N bytes (default 64); 1 is TensorFlow's own layout")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 30))
      ->type_name("N");
  app.add_flag("--overwrite", options->overwrite, "Replace DST");
}

void AddIncludeOption(CLI::App& app, std::vector<std::string>* globs) {
  app.add_option("--include", *globs, "Only names that match; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
}

void AddExcludeOption(CLI::App& app, std::vector<std::string>* globs) {
  app.add_option("--exclude", *globs, "No names that match; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
}

}  // namespace tensorcask::tools
