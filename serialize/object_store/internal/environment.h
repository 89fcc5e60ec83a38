// The settings of other programs for S3 stores: variables of the environment, and the profile that they name.
//
//   const StoreEnvironment environment = StoreEnvironment::Read();
//   environment.Get("AWS_REGION");
//   environment.Profile("region");   // of the profile AWS_PROFILE

#ifndef TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_ENVIRONMENT_H_
#define TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_ENVIRONMENT_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/object_store/internal/profile_file.h"

namespace tensorcask::internal {

class StoreEnvironment {
 public:
  // Of this process, and its files, as they are now. A file that is missing or larger than 1 MiB counts as empty.
  static StoreEnvironment Read();
  // Reads the files again: another program may have put new keys into them.
  void ReadFiles();

  std::string Get(const std::string& variable) const;  // "" if it is not set
  bool IsTrue(const std::string& variable) const;      // "true" or "1"

  const std::string& profile() const { return profile_; }
  bool has_profile() const;
  // A setting of the profile: of the file with credentials first, then of the file with settings.
  std::string Profile(absl::string_view setting) const;

 private:
  std::map<std::string, std::string> variables_;
  std::string profile_;
  ProfileFile credentials_file_;
  ProfileFile config_file_;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_ENVIRONMENT_H_
