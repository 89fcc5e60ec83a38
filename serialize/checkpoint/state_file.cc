#include "tensorcask/serialize/checkpoint/state_file.h"

#include <cstdint>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask {
namespace {

constexpr absl::string_view kLatest = "model_checkpoint_path";
constexpr absl::string_view kAll = "all_model_checkpoint_paths";
constexpr absl::string_view kSavedAt = "all_model_checkpoint_timestamps";
constexpr absl::string_view kLastPreservedAt = "last_preserved_timestamp";

void AppendText(absl::string_view name, absl::string_view value, std::string* out) {
  absl::StrAppend(out, name, ": \"", absl::CEscape(value), "\"\n");
}

// Writes the shortest digits that parse to the same number, as protobuf does.
void AppendTime(absl::string_view name, double value, std::string* out) {
  // Not absl::StrFormat, which ends the process if it cannot allocate its result.
  char digits[32];
  absl::SNPrintF(digits, sizeof(digits), "%.15g", value);
  double back = 0;
  if (!absl::SimpleAtod(digits, &back) || back != value) absl::SNPrintF(digits, sizeof(digits), "%.17g", value);
  absl::StrAppend(out, name, ": ", digits, "\n");
}

// "text" or 'text', escapes resolved.
bool ParseText(absl::string_view value, std::string* text) {
  if (value.size() < 2 || (value[0] != '"' && value[0] != '\'')) return false;
  const char quote = value[0];
  value.remove_prefix(1);
  // The closing quote must be the last character, and any other quote must be escaped.
  size_t end = 0;
  while (end < value.size() && value[end] != quote) end += value[end] == '\\' ? 2 : 1;
  if (end + 1 != value.size()) return false;
  return absl::CUnescape(value.substr(0, end), text);
}

// Parses one line. False if it is not a field, or a known field with an invalid value.
bool ParseLine(absl::string_view line, CheckpointState* state) {
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos) return false;
  const absl::string_view name = absl::StripAsciiWhitespace(line.substr(0, colon));
  const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
  if (name.empty() || value.empty()) return false;
  if (name == kLatest) return ParseText(value, &state->latest);
  if (name == kAll) return ParseText(value, &state->all.emplace_back());
  if (name == kSavedAt) return absl::SimpleAtod(value, &state->saved_at.emplace_back());
  if (name == kLastPreservedAt) return absl::SimpleAtod(value, &state->last_preserved_at);
  return true;
}

}  // namespace

namespace checkpoint {

std::string EncodeState(const CheckpointState& state) {
  std::string text;
  if (!state.latest.empty()) AppendText(kLatest, state.latest, &text);
  for (const std::string& path : state.all) AppendText(kAll, path, &text);
  for (const double time : state.saved_at) AppendTime(kSavedAt, time, &text);
  if (state.last_preserved_at != 0) AppendTime(kLastPreservedAt, state.last_preserved_at, &text);
  return text;
}

absl::StatusOr<CheckpointState> ParseState(absl::string_view text) {
  CheckpointState state;
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    if (!ParseLine(line, &state)) {
      return absl::DataLossError(
          absl::StrCat("line ", number, " is ", Quoted(line), "; NAME: VALUE of a CheckpointState is wanted"));
    }
  }
  if (!state.saved_at.empty() && state.saved_at.size() != state.all.size()) {
    return absl::DataLossError(
        absl::StrCat("has ", state.saved_at.size(), " timestamps of ", state.all.size(), " checkpoints"));
  }
  return state;
}

}  // namespace checkpoint

namespace {

absl::StatusOr<CheckpointState> ReadState(const std::string& path, const ReadOptions& read) {
  constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> text, ReadWholeFile(path, kMaxBytes, read));
  absl::StatusOr<CheckpointState> state = checkpoint::ParseState(text->bytes());
  if (!state.ok()) return absl::DataLossError(absl::StrCat(path, ": ", state.status().message()));
  return state;
}

absl::Status WriteState(const std::string& path, const CheckpointState& state, Publication* publish) {
  CASK_ASSIGN_OR_RETURN(FileSink * sink, publish->Add(path));
  CASK_RETURN_IF_ERROR(sink->Append(checkpoint::EncodeState(state)));
  return publish->Commit();
}

}  // namespace

absl::StatusOr<CheckpointState> ReadCheckpointState(const std::string& path, FileSystem* file_system) {
  ReadOptions read;
  read.file_system = file_system;
  return ReadState(path, read);
}

absl::Status WriteCheckpointState(const std::string& path, const CheckpointState& state, bool sync,
                                  FileSystem* file_system) {
  CASK_CHECK(state.saved_at.empty() || state.saved_at.size() == state.all.size(),
             "WriteCheckpointState: a time for each checkpoint, or none");
  Publication publish({file_system, sync, /*overwrite=*/true});
  return WriteState(path, state, &publish);
}

absl::Status UpdateCheckpointState(const std::string& path,
                                   absl::FunctionRef<CheckpointState(const CheckpointState&)> change, bool sync,
                                   FileSystem* file_system) {
  constexpr int kMaxAttempts = 8;
  ReadOptions read;
  read.file_system = file_system;
  absl::Status status;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    CheckpointState state;
    const absl::StatusOr<std::shared_ptr<const ByteSource>> old = OpenFileSource(path, read);
    if (!old.ok() && !absl::IsNotFound(old.status())) return old.status();
    Publication publish({file_system, sync, /*overwrite=*/old.ok()});
    if (old.ok()) {
      ReadOptions read_old = read;
      read_old.source = *old;
      absl::StatusOr<CheckpointState> found = ReadState(path, read_old);
      status = found.status();
      if (absl::IsAborted(status) || absl::IsNotFound(status)) continue;  // it was replaced or removed meanwhile
      if (!found.ok() && !absl::IsDataLoss(status)) return status;
      if (found.ok()) state = *std::move(found);
      publish.ReplaceOnly(*old);
    }
    status = WriteState(path, change(state), &publish);
    if (!absl::IsAborted(status) && !absl::IsAlreadyExists(status)) return status;
  }
  return absl::AbortedError(absl::StrCat("other writers replaced the file ", kMaxAttempts,
                                         " times at the same time; the last: ", status.message()));
}

}  // namespace tensorcask
