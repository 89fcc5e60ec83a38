// Of `tensorcask-grpc`: servers and clients of tensors over gRPC.

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/rpc/remote_archive.h"
#include "tensorcask/serialize/rpc/tensor_server.h"
#include "tensorcask/serialize/rpc/tensor_source.h"
#include "tensorcask/serialize/rpc/tls.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tools/console.h"
#include "tensorcask/tools/remote_tools.h"

namespace tensorcask::tools {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr absl::Duration kDrainTime = absl::Seconds(5);

std::vector<std::unique_ptr<const ArchiveFormat>> RemoteFormats() {
  std::vector<std::unique_ptr<const ArchiveFormat>> formats;
  formats.push_back(std::make_unique<RemoteArchiveFormat>(/*tls=*/false));
  formats.push_back(std::make_unique<RemoteArchiveFormat>(/*tls=*/true));
  return formats;
}

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  constexpr uint64_t kMaxBytes = uint64_t{1} << 20;
  if (path.empty()) return "";
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> bytes, ReadWholeFile(path, kMaxBytes, ReadOptions()));
  return std::string(static_cast<const char*>(bytes->data()), bytes->size_bytes());
}

absl::StatusOr<ExitCode> ServeRemote(std::vector<ServedFile> files, const ListenFlags& flags, Console& console) {
  size_t count = 0;
  std::vector<PrefixedArchive> archives;
  for (ServedFile& file : files) {
    for (const ArchiveEntry& entry : file.archive->entries()) count += entry.read_status.ok() ? 1 : 0;
    archives.push_back({std::move(file.prefix), std::move(file.archive)});
  }
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorSource> source, ServeArchives(std::move(archives)));
  TensorServerOptions options;
  options.address = flags.address;
  options.insecure = flags.insecure;
  options.slow_client = absl::Seconds(flags.timeout_s);
  const bool tls = !flags.certificate.empty();
  if (tls) {
    TlsServerOptions own;
    CASK_ASSIGN_OR_RETURN(own.certificate_chain, ReadPem(flags.certificate));
    CASK_ASSIGN_OR_RETURN(own.private_key, ReadPem(flags.key));
    CASK_ASSIGN_OR_RETURN(own.client_authorities, ReadPem(flags.client_authorities));
    options.credentials = MakeTlsCredentials(own);
  }
  CatchInterrupts();
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorServer> server, TensorServer::Start(source.get(), options));
  console.out << (tls ? "grpcs://" : "grpc://") << server->address() << ": serving " << count
              << (count == 1 ? " tensor\n" : " tensors\n");
  console.out.flush();
  ProgressLine progress(console);
  while (!Interrupted()) {
    const TensorServerStats stats = server->stats();
    progress.Show(absl::StrCat(stats.num_streams, stats.num_streams == 1 ? " stream, " : " streams, ",
                               HumanBytes(stats.sent_bytes)));
    absl::SleepFor(kTick);
  }
  server->Drain(kDrainTime);
  return InterruptedExitCode();
}

}  // namespace

const RemoteTools* LinkedRemoteTools() {
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);  // its errors are statuses, which the commands print
  static constexpr RemoteTools kTools = {RemoteFormats, ServeRemote};
  return &kTools;
}

}  // namespace tensorcask::tools
