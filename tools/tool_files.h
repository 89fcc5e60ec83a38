// The files that the commands open and create: those of the system and, if an argument names one, those of s3://,
// https:// and http:// (object_store.h).
//
//   CASK_RETURN_IF_ERROR(OpenStores(arguments));          // once, before the first command
//   OpenArchive("s3://bucket/model", Formats(), {.read = {.file_system = ToolFiles()}});

#ifndef TENSORCASK_TOOLS_TOOL_FILES_H_
#define TENSORCASK_TOOLS_TOOL_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/object_store/object_store.h"

namespace tensorcask::tools {

// Lives until CloseStores.
FileSystem* ToolFiles();

// Without an argument that has one of the schemes, this does nothing, and ToolFiles() are those of the system. Errors:
// InvalidArgument for settings of the environment that cannot be used.
absl::Status OpenStores(absl::Span<const std::string> arguments);
// Ends the connections. Nothing is open any more.
void CloseStores();

// The store of the schemes; null if no argument had one.
ObjectStore* ToolStore();

// Whether `path` has one of the schemes.
bool IsOfStore(absl::string_view path);

// "9 requests, 1 repeated; 4.0 MiB received, 128 B sent"
std::string RequestStats();

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_TOOL_FILES_H_
