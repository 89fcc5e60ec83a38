// tensorcask serve: tensors for other processes of this host, over a Unix socket, and for other hosts.

#include <malloc.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/formats/archive_service.h"
#include "tensorcask/serialize/exchange/server.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/peer_options.h"
#include "tensorcask/tools/siblings/remote_tools.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

struct ServeFlags {
  std::vector<std::string> paths;
  SocketFlags socket;
  ListenFlags listen;
  InputOptions input;
  bool follow = false;
};

// Returns the memory of an answer to the system at once, and lets all threads share one arena. Otherwise each thread
// keeps the memory of its largest answers.
void KeepLittleMemory() {
#ifdef M_ARENA_MAX
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  mallopt(M_ARENA_MAX, 1);
#endif
}

absl::Status NameFiles(const absl::Status& status) {
  if (!absl::IsAlreadyExists(status)) return status;
  return Misuse(absl::StrCat(status.message(), "; give a file a name of its own: NAME=PATH serves it as NAME/..."));
}

// Serves other hosts until the process is interrupted.
absl::StatusOr<ExitCode> ServeRemote(std::vector<ArchiveService::Source> sources, const ServeFlags& flags,
                                     Console& console) {
  std::vector<ServedFile> files;
  for (ArchiveService::Source& source : sources) files.push_back({std::move(source.prefix), std::move(source.archive)});
  ListenFlags listen = flags.listen;
  listen.timeout_s = flags.socket.timeout_s;
  const absl::StatusOr<ExitCode> code = GetRemoteTools()->serve(std::move(files), listen, console);
  if (!code.ok()) return NameFiles(code.status());
  return code;
}

// The same at a socket.
absl::StatusOr<ExitCode> ServeAtSocket(std::vector<ArchiveService::Source> sources, const SocketFlags& socket,
                                       Console& console) {
  const absl::StatusOr<std::unique_ptr<ArchiveService>> service = ArchiveService::Create(std::move(sources));
  if (!service.ok()) return NameFiles(service.status());
  PrintNotes("serve", (*service)->notes(), console);
  CatchInterrupts();
  ServerOptions options;
  options.timeout = socket.timeout();
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::Listen(socket.path, service->get(), options));
  const size_t count = (*service)->num_tensors();
  console.out << Printable(socket.path) << ": serving " << count << (count == 1 ? " tensor\n" : " tensors\n");
  console.out.flush();

  ProgressLine progress(console);
  while (!Interrupted()) {
    const ServerStats stats = server->stats();
    progress.Show(absl::StrCat(stats.num_clients, stats.num_clients == 1 ? " client, " : " clients, ",
                               stats.num_answers, stats.num_answers == 1 ? " answer, " : " answers, ",
                               HumanBytes(stats.sent_bytes)));
    server->Run(kPeerTick);
  }
  return InterruptedExitCode();
}

// Serves the newest step of a run to other hosts.
absl::StatusOr<ExitCode> Follow(const ServeFlags& flags, Console& console) {
  if (flags.listen.address.empty()) return Misuse("--follow is for --listen");
  if (flags.paths.size() != 1) return Misuse("--follow wants one PATH, the folder of a run");
  CASK_RETURN_IF_ERROR(DescribeFile(flags.paths[0], FileSystem::Posix()).status());
  ListenFlags listen = flags.listen;
  listen.timeout_s = flags.socket.timeout_s;
  const auto open = [&](const std::string& prefix) { return OpenInput(prefix, flags.input); };
  return GetRemoteTools()->follow(flags.paths[0], open, listen, console);
}

absl::StatusOr<ExitCode> Serve(const ServeFlags& flags, Console& console) {
  CASK_RETURN_IF_ERROR(CheckPlace(flags.socket, flags.listen));
  if (flags.follow) return Follow(flags, console);
  KeepLittleMemory();
  std::vector<ArchiveService::Source> sources;
  std::vector<absl::Status> not_served;
  bool has_readable = false;
  for (const std::string& operand : flags.paths) {
    ArchiveService::Source source;
    const NamedPath named = SplitOperand(operand);
    source.prefix = named.name;
    if (!named.name.empty() && !absl::EndsWith(named.name, "/")) source.prefix += "/";
    CASK_ASSIGN_OR_RETURN(source.archive, OpenInput(named.path, flags.input));
    if (!flags.listen.address.empty()) NoteOverlooked("serve", *source.archive, console);
    for (const ArchiveEntry& entry : source.archive->entries()) {
      absl::Status status = source.archive->CheckReadable(entry);
      has_readable = has_readable || status.ok();
      if (!status.ok()) not_served.push_back(std::move(status));
    }
    sources.push_back(std::move(source));
  }
  if (!has_readable && !not_served.empty()) return not_served[0];
  if (flags.listen.address.empty()) return ServeAtSocket(std::move(sources), flags.socket, console);
  for (const absl::Status& status : not_served) {
    console.err << "tensorcask serve: not served: " << EscapeControls(status.message()) << '\n';
  }
  return ServeRemote(std::move(sources), flags, console);
}

}  // namespace

Action DeclareServe(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  app.add_option("PATH", flags->paths,
                 "Checkpoint prefixes or .index files, or other files; NAME=PATH serves it as NAME/...")
      ->required();
  AddSocketOptions(app, &flags->socket, "The socket to make, for clients of the same user", 60);
  AddListenOptions(app, &flags->listen, "Serve over gRPC at HOST:PORT, for clients of grpc://HOST:PORT");
  app.add_flag("--follow", flags->follow,
               "With --listen: PATH is the folder of a run, whose newest whole step is served, and each newer one");
  AddInputOptions(app, &flags->input);
  app.footer(
      "Answers until it is interrupted. A line names each tensor that cannot be read and is not served. Every "
      "command that reads takes unix:SOCKET or grpc://HOST:PORT[/NAME] for a PATH. Over gRPC, 256 streams are served "
      "at "
      "once, and port 0 is any that is free.\n\n"
      "At a socket, 64 clients are served at once. When more connect, clients are disconnected to make room: first "
      "silent "
      "ones and those that do not read their answers, then busy ones that have had an answer. Half of the "
      "places are for answers of more than 1 MiB; one more request for such an answer is refused, and the "
      "client can ask again.\n\n"
      "Examples:\n"
      "  tensorcask serve model.ckpt --unix /run/user/1000/model.sock &\n"
      "  tensorcask show --slice 0,10:- unix:/run/user/1000/model.sock dense/kernel\n"
      "  tensorcask serve model.ckpt --listen 127.0.0.1:50051 &\n"
      "  tensorcask ls grpc://127.0.0.1:50051\n"
      "  tensorcask serve /models/run-7 --follow --listen 127.0.0.1:50051");
  return [flags](Console& console) { return Serve(*flags, console); };
}

}  // namespace tensorcask::tools
