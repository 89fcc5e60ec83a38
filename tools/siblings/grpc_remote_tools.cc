// Of `tensorcask-grpc`: servers and clients of tensors over gRPC.

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/rpc/follow_folder.h"
#include "tensorcask/serialize/rpc/live_tensors.h"
#include "tensorcask/serialize/rpc/push_tensors.h"
#include "tensorcask/serialize/rpc/remote_archive.h"
#include "tensorcask/serialize/rpc/remote_format.h"
#include "tensorcask/serialize/rpc/tensor_server.h"
#include "tensorcask/serialize/rpc/tensor_source.h"
#include "tensorcask/serialize/rpc/tls.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tools/output/console.h"
#include "tensorcask/tools/siblings/remote_tools.h"

namespace tensorcask::tools {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr absl::Duration kDrainTime = absl::Seconds(5);
// What a part of a PEM file is called.
constexpr absl::string_view kCertificate = "CERTIFICATE";
constexpr absl::string_view kKey = "PRIVATE KEY";

// "" without a path.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  constexpr uint64_t kMaxBytes = uint64_t{1} << 20;
  if (path.empty()) return "";
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> bytes, ReadWholeFile(path, kMaxBytes, ReadOptions()));
  return std::string(static_cast<const char*>(bytes->data()), bytes->size_bytes());
}

// A file in PEM that has a part of this kind. gRPC says of other files only that it cannot connect or listen.
absl::StatusOr<std::string> ReadPem(const std::string& path, absl::string_view kind) {
  CASK_ASSIGN_OR_RETURN(std::string text, ReadSmallFile(path));
  const size_t begin = text.find("-----BEGIN ");
  const bool has_part = begin != std::string::npos && absl::StrContains(text, absl::StrCat(kind, "-----\n"));
  if (path.empty() || has_part) return text;
  return absl::InvalidArgumentError(absl::StrCat(path, ": has no \"", kind, "\" in PEM"));
}

// The token in a file, without the white space around it.
absl::StatusOr<std::string> ReadToken(const std::string& path) {
  CASK_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path));
  const std::string token(absl::StripAsciiWhitespace(text));
  if (!path.empty() && token.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": has no token"));
  for (const char c : token) {
    if (!absl::ascii_isgraph(c)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": is not a token; wanted one word of printable ASCII"));
    }
  }
  return token;
}

// What a client shows, and whom it trusts: files that the environment names.
absl::StatusOr<RemoteOptions> OptionsFor(const std::string& address) {
  RemoteOptions options;
  if (!absl::StartsWith(address, RemoteArchiveFormat::kTlsScheme)) return options;
  const auto named_by = [](const char* variable) -> std::string {
    const char* const path = std::getenv(variable);
    return path == nullptr ? "" : path;
  };
  const std::string certificate = named_by("TENSORCASK_GRPC_CERTIFICATE");
  const std::string key = named_by("TENSORCASK_GRPC_KEY");
  if (certificate.empty() != key.empty()) {
    return absl::InvalidArgumentError(
        "a client shows a certificate with its key: set both TENSORCASK_GRPC_CERTIFICATE and TENSORCASK_GRPC_KEY");
  }
  TlsClientOptions tls;
  CASK_ASSIGN_OR_ANNOTATE(tls.authorities, ReadPem(named_by("TENSORCASK_GRPC_CA"), kCertificate), "TENSORCASK_GRPC_CA");
  CASK_ASSIGN_OR_ANNOTATE(tls.certificate_chain, ReadPem(certificate, kCertificate), "TENSORCASK_GRPC_CERTIFICATE");
  CASK_ASSIGN_OR_ANNOTATE(tls.private_key, ReadPem(key, kKey), "TENSORCASK_GRPC_KEY");
  CASK_ASSIGN_OR_ANNOTATE(tls.token, ReadToken(named_by("TENSORCASK_GRPC_TOKEN_FILE")), "TENSORCASK_GRPC_TOKEN_FILE");
  options.credentials = MakeTlsCredentials(tls);
  return options;
}

// The error of a client, with what a user can do about it.
absl::Status Advised(const absl::Status& status, const std::string& address) {
  const struct {
    absl::string_view says;
    absl::string_view scheme;  // of the address
    const char* advice;
  } kRows[] = {
      {"certificate verify failed", "grpcs://", "; TENSORCASK_GRPC_CA names a file with the authorities to trust"},
      {"wrong version number", "grpcs://", "; does the server speak no TLS? Then its address is grpc://..."},
      {"Socket closed", "grpc://", "; does the server speak TLS? Then its address is grpcs://..."},
      {"Connection refused", "grpc", "; no server listens there"},
      {"wants a token", "grpcs://", "; TENSORCASK_GRPC_TOKEN_FILE names a file with it"},
  };
  for (const auto& row : kRows) {
    if (absl::StartsWith(address, row.scheme) && absl::StrContains(status.message(), row.says)) {
      return AppendToMessage(status, row.advice);
    }
  }
  return status;
}

// As RemoteArchiveFormat, with the credentials of OptionsFor.
class AddressFormat final : public RemoteFormat {
 public:
  using RemoteFormat::RemoteFormat;

  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override {
    CASK_ASSIGN_OR_ANNOTATE(const RemoteOptions remote, OptionsFor(path), path);
    absl::StatusOr<std::unique_ptr<ArchiveReader>> archive =
        RemoteArchiveFormat(scheme() == RemoteArchiveFormat::kTlsScheme, remote).Open(path, options);
    if (!archive.ok()) return Advised(archive.status(), path);
    return archive;
  }
};

std::vector<std::unique_ptr<const ArchiveFormat>> RemoteFormats() {
  std::vector<std::unique_ptr<const ArchiveFormat>> formats;
  formats.push_back(std::make_unique<AddressFormat>(/*tls=*/false));
  formats.push_back(std::make_unique<AddressFormat>(/*tls=*/true));
  return formats;
}

absl::StatusOr<TensorServerOptions> ServerOptionsOf(const ListenFlags& flags) {
  TensorServerOptions options;
  options.address = flags.address;
  options.insecure = flags.insecure;
  options.slow_client = absl::Seconds(flags.timeout_s);
  if (flags.certificate.empty()) return options;
  TlsServerOptions own;
  CASK_ASSIGN_OR_RETURN(own.certificate_chain, ReadPem(flags.certificate, kCertificate));
  CASK_ASSIGN_OR_RETURN(own.private_key, ReadPem(flags.key, kKey));
  CASK_ASSIGN_OR_RETURN(own.client_authorities, ReadPem(flags.client_authorities, kCertificate));
  CASK_ASSIGN_OR_RETURN(own.token, ReadToken(flags.token_file));
  options.credentials = MakeTlsCredentials(own);
  return options;
}

std::string AddressOf(const TensorServer& server, const ListenFlags& flags) {
  return absl::StrCat(flags.certificate.empty() ? "grpc://" : "grpcs://", server.address());
}

// Until the process is interrupted.
ExitCode RunServer(TensorServer* server, Console& console) {
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

absl::StatusOr<ExitCode> ServeRemote(std::vector<ServedFile> files, const ListenFlags& flags, Console& console) {
  size_t count = 0;
  std::vector<PrefixedArchive> archives;
  for (ServedFile& file : files) {
    for (const ArchiveEntry& entry : file.archive->entries()) count += entry.read_status.ok() ? 1 : 0;
    archives.push_back({std::move(file.prefix), std::move(file.archive)});
  }
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorSource> source, ServeArchives(std::move(archives)));
  CASK_ASSIGN_OR_RETURN(const TensorServerOptions options, ServerOptionsOf(flags));
  CatchInterrupts();
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorServer> server, TensorServer::Start(source.get(), options));
  console.out << AddressOf(*server, flags) << ": serving " << count << (count == 1 ? " tensor\n" : " tensors\n");
  console.out.flush();
  return RunServer(server.get(), console);
}

absl::StatusOr<ExitCode> FollowRemote(const std::string& folder, const OpenCheckpointOf& open, const ListenFlags& flags,
                                      Console& console) {
  CASK_ASSIGN_OR_RETURN(const TensorServerOptions options, ServerOptionsOf(flags));
  FollowFolderOptions follow;
  follow.in_memory = true;  // the run removes old steps
  const std::unique_ptr<TensorSource> source = FollowFolder(folder, open, follow);
  CatchInterrupts();
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorServer> server, TensorServer::Start(source.get(), options));
  const absl::StatusOr<TensorSnapshot> current = source->Current();
  console.out << AddressOf(*server, flags) << ": following " << Printable(folder) << ", "
              << (current.ok() ? absl::StrCat("at step ", current->version.step) : "which has no step to serve yet")
              << '\n';
  console.out.flush();
  return RunServer(server.get(), console);
}

absl::Status PushRemote(const PushFlags& flags, std::shared_ptr<const ArchiveReader> archive,
                        const std::vector<std::string>& names,
                        const std::function<bool(uint64_t sent_bytes)>& keep_going,
                        const std::function<void(const std::string& sentence)>& note) {
  CASK_ASSIGN_OR_ANNOTATE(RemoteOptions options, OptionsFor(flags.address), flags.address);
  options.pull.stall_timeout = absl::Seconds(flags.timeout_s);
  PushArchiveOptions push;
  push.allow_loss = flags.allow_loss;
  push.keep_going = keep_going;
  push.note = note;
  const auto pushed = PushArchive(flags.address, flags.step, std::move(archive), names, options, push);
  return Advised(pushed.status(), flags.address);
}

// Has no tensors, and saves the first that are pushed.
class OnePush final : public TensorSource {
 public:
  using Save = std::function<absl::Status(const ArchiveReader&)>;

  explicit OnePush(const Save& save) : save_(save) {}

  absl::StatusOr<TensorSnapshot> Current() override { return Refusal(); }
  absl::StatusOr<TensorSnapshot> WaitForNewer(const TensorVersion& /*version*/, Deadline /*deadline*/) override {
    return Refusal();
  }
  absl::StatusOr<TensorVersion> Replace(TensorSet set) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (done_) return absl::FailedPreconditionError("this `tensorcask recv` takes one push, and has saved another");
    LiveTensors received;
    CASK_ASSIGN_OR_RETURN(const TensorVersion version, received.Replace(std::move(set)));
    CASK_ASSIGN_OR_RETURN(const TensorSnapshot snapshot, received.Current());
    status_ = save_(*snapshot.tensors);
    done_ = true;
    CASK_RETURN_IF_ERROR(status_);
    return version;
  }

  bool done() const { return done_; }
  absl::Status status() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return status_;
  }

 private:
  static absl::Status Refusal() {
    return absl::FailedPreconditionError("this is a `tensorcask recv`, which only takes what `send` sends");
  }

  const Save& save_;
  mutable std::mutex mutex_;
  std::atomic<bool> done_{false};
  absl::Status status_;
};

absl::Status ReceiveRemote(const ListenFlags& flags, const OnePush::Save& save, Console& console) {
  CASK_ASSIGN_OR_RETURN(TensorServerOptions options, ServerOptionsOf(flags));
  options.accept_pushes = true;
  options.push_limits.max_file_decoded_bytes = INT64_MAX;  // as files, which have any size
  CatchInterrupts();
  OnePush source(save);
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorServer> server, TensorServer::Start(&source, options));
  const std::string address = AddressOf(*server, flags);
  console.out << address << ": waiting for a push\n";
  console.out.flush();
  const absl::Time deadline = absl::Now() + absl::Seconds(flags.timeout_s);
  // A push that has begun in time may end later: slow_client ends one that stalls.
  while (!source.done() && (absl::Now() < deadline || server->stats().num_streams > 0)) {
    if (Interrupted()) return absl::CancelledError("interrupted");
    absl::SleepFor(kTick);
  }
  server->Drain(kDrainTime);
  if (source.done()) return source.status();
  return absl::DeadlineExceededError(absl::StrCat(address, ": no push came within ", flags.timeout_s, " s"));
}

}  // namespace

const RemoteTools* LinkedRemoteTools() {
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);  // its errors are statuses, which the commands print
  static constexpr RemoteTools kTools = {RemoteFormats, IsNewVersionOfServer, ServeRemote,
                                         FollowRemote,  PushRemote,           ReceiveRemote};
  return &kTools;
}

}  // namespace tensorcask::tools
