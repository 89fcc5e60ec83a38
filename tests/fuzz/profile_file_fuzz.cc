// Text as a file of profiles: a setting that is written into its section is found there, whatever stands around it.
//
// Is to reach what input can reach of these files:
//   serialize/object_store/internal/profile_file*

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/object_store/internal/profile_file.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ::tensorcask::internal;  // NOLINT(google-build-using-namespace)
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const ProfileFile alone = ParseProfileFile(text);
  FUZZ_CHECK(alone.Find("default", "region").size() <= size, "a value longer than its file");
  const ProfileFile after = ParseProfileFile(absl::StrCat(text, "\n[default]\nregion = x-1\n"));
  FUZZ_CHECK(after.Find("default", "region") == "x-1", "the last value does not win");
  const ProfileFile before = ParseProfileFile(absl::StrCat("[only here]\nkey=v\n[default]\n", text));
  FUZZ_CHECK(before.Has("only here"), "a section is lost");
  return 0;
}
