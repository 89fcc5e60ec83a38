#include "tensorcask/tools/subcommand.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/base/glob.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::tools {
namespace {
CLI::IsMember IsFormat() { return CLI::IsMember(std::vector<std::string>(std::begin(kFormats), std::end(kFormats))); }

}  // namespace

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
    // A tensor without bytes is at the offset of the next one: it was stored first.
    const bool a_has_bytes = a.stored_bytes > 0;
    const bool b_has_bytes = b.stored_bytes > 0;
    return std::tie(a.shard, a.offset, a_has_bytes) < std::tie(b.shard, b.offset, b_has_bytes);
  });
  return selected;
}

absl::StatusOr<DecodedTensor> ReadToCopy(const Input& input, const TensorInfo& info, bool allow_loss) {
  absl::StatusOr<DecodedTensor> tensor = input.ReadWithMetadata(info.name);
  if (tensor.ok() || !info.has_metadata) return tensor;
  absl::StatusOr<DecodedTensor> readable = input.ReadWithReadableMetadata(info.name);
  if (!readable.ok()) return tensor;  // the elements cannot be read either
  if (allow_loss) return readable;
  const absl::Status& status = tensor.status();
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; --allow-loss leaves out metadata that cannot be read"));
}

void AddInputOptions(CLI::App& app, InputOptions* options) {
  app.add_option("--format", options->format, "The format of PATH, if its content does not show it")
      ->check(IsFormat())
      ->type_name("FORMAT");
  AddBaseOption(app, &options->base);
}

void AddBaseOption(CLI::App& app, std::string* base) {
  app.add_option("--base", *base, "The base checkpoint of tensors that are stored as deltas")->type_name("PATH");
}

void AddOutputOptions(CLI::App& app, std::string* to, OutputOptions* options) {
  app.add_option("--to", *to, "The format of DST, if its name does not show it")
      ->check(IsFormat())
      ->type_name("FORMAT");
  app.add_option_function<std::string>(
         "--level", [options](const std::string& name) { options->level = *ParsePayloadLevel(name); },
         "Compression: stored (plain elements, the default), default or high; TensorFlow reads only stored")
      ->check(CLI::IsMember({"stored", "default", "high"}))
      ->type_name("LEVEL");
  app.add_option("--alignment", options->alignment,
                 "Each tensor starts at a multiple of N bytes (default 64); 1 is the layout of TensorFlow")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 30))
      ->type_name("N");
  app.add_flag("--overwrite", options->overwrite, "Replace DST");
}

void AddIncludeOption(CLI::App& app, std::vector<std::string>* globs) {
  app.add_option("--include", *globs, "Only tensors with names that match; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
}

void AddExcludeOption(CLI::App& app, std::vector<std::string>* globs) {
  app.add_option("--exclude", *globs, "No tensors with names that match; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
}

}  // namespace tensorcask::tools
