#include "tensorcask/tools/tool_files.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/file_system_router.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/output/console.h"

namespace tensorcask::tools {
namespace {

constexpr absl::string_view kStoreSchemes[] = {"s3", "https", "http"};

struct OpenedStores {
  std::unique_ptr<ObjectStore> store;
  std::unique_ptr<FileSystemRouter> files;
};

OpenedStores& Stores() {
  static auto* const stores = new OpenedStores();
  return *stores;
}

// Where a scheme begins: also behind the "=" of --base=PATH and NAME=PATH.
bool NamesStore(absl::string_view argument) {
  return std::any_of(std::begin(kStoreSchemes), std::end(kStoreSchemes), [&](absl::string_view scheme) {
    return absl::StrContains(argument, absl::StrCat(scheme, "://"));
  });
}

}  // namespace

FileSystem* ToolFiles() {
  const OpenedStores& stores = Stores();
  return stores.files == nullptr ? FileSystem::Posix() : stores.files.get();
}

absl::Status OpenStores(absl::Span<const std::string> arguments) {
  if (std::none_of(arguments.begin(), arguments.end(), NamesStore)) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(Stores().store, ObjectStore::Create({}));
  Stores().files = std::make_unique<FileSystemRouter>(FileSystem::Posix());
  for (const absl::string_view scheme : kStoreSchemes) Stores().files->Add(scheme, Stores().store->files());
  return absl::OkStatus();
}

void CloseStores() {
  Stores().files.reset();
  Stores().store.reset();
}

ObjectStore* ToolStore() { return Stores().store.get(); }

bool IsOfStore(absl::string_view path) {
  const absl::string_view scheme = SchemeOf(path);
  return std::find(std::begin(kStoreSchemes), std::end(kStoreSchemes), scheme) != std::end(kStoreSchemes);
}

std::string RequestStats() {
  ObjectStoreStats stats;
  if (Stores().store != nullptr) stats = Stores().store->stats();
  return absl::StrCat(stats.requests, stats.requests == 1 ? " request, " : " requests, ", stats.retries, " repeated; ",
                      HumanBytes(stats.bytes_received), " received, ", HumanBytes(stats.bytes_sent), " sent");
}

}  // namespace tensorcask::tools
