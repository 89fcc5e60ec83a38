#include "tensorcask/serialize/checkpoint/internal/step_folder.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/stale_temporaries.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::checkpoint {
namespace {

constexpr absl::string_view kStateName = "checkpoint";
constexpr absl::string_view kLockSuffix = ".lock";
constexpr absl::string_view kIndexSuffix = ".index";
constexpr absl::string_view kDataMark = ".data-";

// Takes what makes a name temporary from its end.
bool ConsumeTemporarySuffix(absl::string_view* name) {
  const std::optional<absl::string_view> final_name = FinalNameOfTemporary(*name);
  if (final_name.has_value()) *name = *final_name;
  return final_name.has_value();
}

// Consumes the number at the front: digits without leading zeros, at most 2^63 - 1.
bool ConsumeStep(absl::string_view* text, int64_t* step) {
  size_t digits = 0;
  while (digits < text->size() && absl::ascii_isdigit(static_cast<unsigned char>((*text)[digits]))) ++digits;
  if (digits == 0 || (digits > 1 && text->front() == '0')) return false;
  if (!absl::SimpleAtoi(text->substr(0, digits), step)) return false;
  text->remove_prefix(digits);
  return true;
}

// Adds `name` to its step, if it belongs to one.
void Sort(absl::string_view name, absl::string_view start, StepFolder* folder) {
  absl::string_view rest = name;
  int64_t step = 0;
  if (!absl::ConsumePrefix(&rest, start) || !ConsumeStep(&rest, &step)) return;
  const std::optional<DataName> data = ParseDataName(name);
  absl::string_view stem = rest;
  if (rest == kIndexSuffix) {
    folder->steps[step].has_index = true;
  } else if (data.has_value() && data->prefix.size() == name.size() - rest.size()) {
    folder->steps[step].data.emplace_back(name);
  } else if (ConsumeTemporarySuffix(&stem) &&
             (absl::StartsWith(kIndexSuffix, stem) ||  // a long name is cut
              absl::StartsWith(kDataMark, stem) || absl::StartsWith(stem, kDataMark))) {
    folder->steps[step].leftovers.emplace_back(name);
  }
}

}  // namespace

absl::StatusOr<StepFolder> ListSteps(const std::string& folder, absl::string_view name, FileSystem* files) {
  CASK_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(folder, files));
  StepFolder found;
  const std::string start = absl::StrCat(name, "-");
  const std::string lock = absl::StrCat(".", name, kLockSuffix);
  bool others = false;
  for (const std::string& file : names) {
    others |= file[0] == '.' && absl::EndsWith(file, kLockSuffix) && file != lock;
    absl::string_view stem = file;
    if (ConsumeTemporarySuffix(&stem) && stem == kStateName) found.state_leftovers.push_back(file);
    Sort(file, start, &found);
  }
  if (others) found.state_leftovers.clear();
  return found;
}

absl::Status CheckStepNames(const std::string& folder, absl::string_view name) {
  CASK_RETURN_IF_ERROR(CheckPath(folder));
  if (name.empty() || name.find('/') != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("a checkpoint manager's name is ", Quoted(name), "; wanted a name without a slash"));
  }
  // The prefix of the highest step is the longest.
  return CheckNewPrefix(StepPrefix(folder, name, INT64_MAX));
}

bool CanBePassedOver(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kFailedPrecondition:  // not a regular file
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnimplemented:
      return true;
    default:
      return false;
  }
}

bool ParseStepName(absl::string_view path, absl::string_view name, int64_t* step) {
  path.remove_prefix(path.rfind('/') + 1);  // npos + 1 is 0
  return absl::ConsumePrefix(&path, name) && absl::ConsumePrefix(&path, "-") && ConsumeStep(&path, step) &&
         path.empty();
}

std::string PathIn(absl::string_view folder, absl::string_view file) {
  return absl::StrCat(folder, absl::EndsWith(folder, "/") ? "" : "/", file);
}

std::string StepPrefix(absl::string_view folder, absl::string_view name, int64_t step) {
  return PathIn(folder, absl::StrCat(name, "-", step));
}

std::string LockPath(absl::string_view folder, absl::string_view name) {
  return PathIn(folder, absl::StrCat(".", name, kLockSuffix));
}

std::string StatePath(absl::string_view folder) { return PathIn(folder, kStateName); }

}  // namespace tensorcask::checkpoint
