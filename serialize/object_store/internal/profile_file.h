// The files ~/.aws/credentials and ~/.aws/config: sections of "name = value" lines.
//
//   const ProfileFile file = ParseProfileFile(text);
//   file.Find("default", "region");
//
// Lines that begin with # or ; are comments. A line that begins with a space continues the value above, for nested
// settings, and is left out. Other lines that are not understood are left out, too: files of other programs have
// settings of many kinds.

#ifndef TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_PROFILE_FILE_H_
#define TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_PROFILE_FILE_H_

#include <map>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace tensorcask::internal {

class ProfileFile {
 public:
  // The value of `setting` in the section [PROFILE] or [profile PROFILE]; "" if there is none. A later section of the
  // same name adds to an earlier one, and its values win.
  std::string Find(absl::string_view profile, absl::string_view setting) const;
  bool Has(absl::string_view profile) const;

 private:
  friend ProfileFile ParseProfileFile(absl::string_view text);

  std::map<std::string, std::map<std::string, std::string>> profiles_;
};

// Requires: the caller bounds the text.
ProfileFile ParseProfileFile(absl::string_view text);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_PROFILE_FILE_H_
