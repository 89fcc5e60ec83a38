// Which entries of the metadata are other names of tensors (FORMAT.md section 5).

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_ALIAS_KEYS_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_ALIAS_KEYS_H_

#include <map>
#include <set>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace tensorcask::safetensors {

using IsTensor = absl::FunctionRef<bool(const std::string& name)>;

// The keys of the entries that are aliases: each has the name of a tensor as its value, is itself no tensor, and the
// list under kAliasesKey has it, or if there is no list, `format` is "pt".
std::set<std::string> AliasKeys(const std::map<std::string, std::string>& metadata, IsTensor is_tensor);

// The value for kAliasesKey.
std::string AliasList(const std::set<std::string>& keys);

}  // namespace tensorcask::safetensors

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_ALIAS_KEYS_H_
