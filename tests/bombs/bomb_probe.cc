// Does one operation on a checkpoint, and prints the result and the peak memory above that at the start:
//
//   bomb_probe list|entries|verify|lookup PREFIX   ->   "1000 tensors; 2345 KiB"
//
// `list` walks over the entries, `entries` makes the list, `lookup` finds 1000 of the listed names.

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::testing {
namespace {

// The most memory that was ever resident.
int64_t PeakKib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    absl::string_view rest = line;
    int64_t kib = 0;
    if (absl::ConsumePrefix(&rest, "VmHWM:") && absl::ConsumeSuffix(&rest, " kB") && absl::SimpleAtoi(rest, &kib)) {
      return kib;
    }
  }
  return 0;
}

absl::StatusOr<std::string> List(const CheckpointReader& reader) {
  int64_t count = 0;
  CASK_RETURN_IF_ERROR(reader.ForEachEntry([&](const CheckpointEntry&) {
    ++count;
    return absl::OkStatus();
  }));
  return absl::StrCat(count, " tensors");
}

absl::StatusOr<std::string> Entries(const CheckpointReader& reader) {
  CASK_ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> entries, reader.entries());
  return absl::StrCat(entries.size(), " tensors");
}

absl::StatusOr<std::string> Verify(const CheckpointReader& reader) {
  absl::Status first;
  CASK_ASSIGN_OR_RETURN(const CheckpointCounts counts,
                        reader.VerifyAll([&](const CheckpointDamage& damage) { first.Update(damage.status); }));
  CASK_RETURN_IF_ERROR(first);
  return absl::StrCat(counts.whole, " tensors");
}

absl::StatusOr<std::string> Lookup(const CheckpointReader& reader) {
  std::vector<std::string> names;
  int64_t number = 0;
  CASK_RETURN_IF_ERROR(reader.ForEachEntry([&](const CheckpointEntry& entry) {
    if (number++ % 1000 == 0) names.push_back(entry.name);
    return absl::OkStatus();
  }));
  for (const std::string& name : names) CASK_RETURN_IF_ERROR(reader.Find(name).status());
  return absl::StrCat(names.size(), " tensors");
}

absl::StatusOr<std::string> Run(const std::string& command, const std::string& path) {
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(path));
  if (command == "list") return List(reader);
  if (command == "entries") return Entries(reader);
  if (command == "verify") return Verify(reader);
  if (command == "lookup") return Lookup(reader);
  return absl::InvalidArgumentError(absl::StrCat("unknown command ", command));
}

}  // namespace
}  // namespace tensorcask::testing

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: bomb_probe list|entries|verify|lookup PREFIX\n";
    return 2;
  }
  const int64_t before = tensorcask::testing::PeakKib();
  const absl::StatusOr<std::string> result = tensorcask::testing::Run(argv[1], argv[2]);
  std::cout << (result.ok() ? *result : std::string(result.status().ToString())) << "; "
            << tensorcask::testing::PeakKib() - before << " KiB\n";
  return result.ok() ? 0 : 1;
}
