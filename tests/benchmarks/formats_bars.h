// The promises about safetensors, npy and npz files, and about what reads them through the archive.

#ifndef TENSORCASK_TESTS_BENCHMARKS_FORMATS_BARS_H_
#define TENSORCASK_TESTS_BENCHMARKS_FORMATS_BARS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tensorcask::benchmarks {

// `part` is "safetensors", "archive" (stats, diff, convert) or "npy"; empty: all.
void FormatRows(absl::string_view part = "");

// For tests/benchmarks/formats_peers.py, which runs the libraries of others beside this one: the seconds that each of
// `rounds` repetitions of `what` took on the file `path`. `what` is open (safetensors), load-safetensors, load-npy or
// load-npz (all tensors into fresh memory), save-npy or save-npz (256 MiB of float32). Returns false for other words.
bool PrintSeconds(const std::string& what, const std::string& path, int rounds);

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_FORMATS_BARS_H_
