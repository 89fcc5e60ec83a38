#include "tensorcask/serialize/object_store/internal/profile_file.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tensorcask::internal {

ProfileFile ParseProfileFile(absl::string_view text) {
  ProfileFile file;
  std::map<std::string, std::string>* settings = nullptr;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripTrailingAsciiWhitespace(line);
    if (line.empty() || absl::ascii_isspace(line.front()) || line.front() == '#' || line.front() == ';') continue;
    if (absl::ConsumePrefix(&line, "[")) {
      const size_t end = line.find(']');
      absl::string_view name = absl::StripAsciiWhitespace(line.substr(0, end));
      if (absl::ConsumePrefix(&name, "profile ")) name = absl::StripLeadingAsciiWhitespace(name);
      settings = end == absl::string_view::npos ? nullptr : &file.profiles_[std::string(name)];
      continue;
    }
    const size_t equals = line.find('=');
    if (settings == nullptr || equals == absl::string_view::npos) continue;
    const std::string name = absl::AsciiStrToLower(absl::StripAsciiWhitespace(line.substr(0, equals)));
    absl::string_view value = absl::StripAsciiWhitespace(line.substr(equals + 1));
    value = absl::StripAsciiWhitespace(value.substr(0, value.find(" #")));
    (*settings)[name] = std::string(value);
  }
  return file;
}

std::string ProfileFile::Find(absl::string_view profile, absl::string_view setting) const {
  const auto found = profiles_.find(std::string(profile));
  if (found == profiles_.end()) return "";
  const auto value = found->second.find(std::string(setting));
  return value == found->second.end() ? "" : value->second;
}

bool ProfileFile::Has(absl::string_view profile) const { return profiles_.count(std::string(profile)) != 0; }

}  // namespace tensorcask::internal
