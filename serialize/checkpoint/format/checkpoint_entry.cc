#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"

namespace tensorcask {

absl::string_view EntryFormName(EntryForm form) {
  switch (form) {
    case EntryForm::kPlain:
      return "plain";
    case EntryForm::kSliced:
      return "sliced";
    case EntryForm::kExtensionOnly:
      return "extension-only";
    case EntryForm::kEncoded:
      return "encoded";
    case EntryForm::kUnknown:
      break;
  }
  return "unknown";
}

}  // namespace tensorcask
