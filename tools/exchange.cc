// tensorcask send, recv, serve: tensors between processes on one host, over a Unix socket; serve also for other hosts.

#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/formats/archive_service.h"
#include "tensorcask/serialize/archive/record_stream.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/server.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tools/remote_tools.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

// `send` sends one request for each tensor, whose metadata has the name, and one for the end. `recv` answers each, so
// that the sender learns what was saved.
constexpr char kTensorTopic[] = "tensor";
constexpr char kEndTopic[] = "end";

constexpr absl::Duration kTick = absl::Milliseconds(100);
// Options of all three.
struct SocketFlags {
  std::string path;
  double timeout_s;  // how long to wait for a silent peer

  absl::Duration timeout() const { return absl::Seconds(timeout_s); }
};

// Errors: Misuse if there is no folder for the socket.
absl::Status CheckSocketFolder(const std::string& socket) {
  const size_t slash = socket.rfind('/');
  if (slash == std::string::npos || slash == 0) return absl::OkStatus();
  const std::string folder = socket.substr(0, slash);
  if (!absl::IsNotFound(DescribeFile(folder, FileSystem::Posix()).status())) return absl::OkStatus();
  return Misuse(absl::StrCat("--unix ", socket, ": there is no folder ", folder, " for the socket"));
}

absl::StatusOr<Channel> ConnectToReceiver(const SocketFlags& socket) {
  return Channel::ConnectToListening(
      socket.path, socket.timeout(),
      absl::StrCat("no `tensorcask recv` waits at this socket: start it first with --unix ", Printable(socket.path)));
}

uint64_t MemoryBytes(const DecodedTensor& tensor) {
  const TensorView::ByteRange range = tensor.view.bounds();
  return range.end - range.begin;
}

// Calls `stop` once when a signal asks the process to end.
class StopWatch {
 public:
  explicit StopWatch(std::function<void()> stop)
      : thread_([this, stop = std::move(stop)] {
          while (!done_ && !Interrupted()) std::this_thread::sleep_for(absl::ToChronoMilliseconds(kTick));
          if (!done_) stop();
        }) {}
  ~StopWatch() {
    done_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

struct SendFlags {
  std::string path;
  SocketFlags socket;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  InputOptions input;
  bool allow_loss = false;
};

absl::StatusOr<ExitCode> Send(const SendFlags& flags, Console& console) {
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> input, OpenInput(flags.path, flags.input));
  NoteOverlooked("send", *input, console);
  CASK_RETURN_IF_ERROR(CheckMatched(flags.include, {input.get()}));
  CASK_ASSIGN_OR_RETURN(const std::vector<const ArchiveEntry*> selected,
                        SelectReadable("send", *input, flags.include, flags.exclude, flags.allow_loss, console));
  CatchInterrupts();
  CASK_ASSIGN_OR_RETURN(Channel channel, ConnectToReceiver(flags.socket));
  const StopWatch watch([&] { channel.Shutdown(); });
  const auto call = [&](const Message& request) -> absl::Status {
    CASK_ASSIGN_OR_RETURN(const Message reply, channel.Call(request, flags.socket.timeout()));
    return StatusOfReply(reply);
  };
  size_t sent = 0;
  const auto send_all = [&]() -> absl::Status {
    ProgressLine progress(console, ElementBytes(selected));
    uint64_t bytes = 0;
    for (size_t i = 0; i < selected.size(); ++i) {
      const ArchiveEntry& info = *selected[i];
      CASK_ASSIGN_OR_RETURN(std::optional<DecodedTensor> tensor,
                            ReadUnlessLost("send", *input, info, flags.allow_loss, console));
      if (!tensor.has_value()) continue;
      if (flags.allow_loss) tensor->metadata.name.clear();
      Message message;
      message.topic = kTensorTopic;
      CASK_ASSIGN_OR_RETURN(tensor, AttachName(info.name, *std::move(tensor)));
      message.tensors.push_back(*std::move(tensor));
      CASK_RETURN_IF_ERROR(call(message));
      ++sent;
      bytes += ElementBytes(info);
      progress.ShowBytes(absl::StrCat("sending ", i + 1, "/", selected.size()), bytes);
    }
    Message end;
    end.topic = kEndTopic;
    return call(end);
  };
  const absl::Status status = send_all();
  if (Interrupted()) return InterruptedExitCode();
  CASK_RETURN_IF_ERROR(status);
  NoteAllUnmatched("send", "--exclude ", flags.exclude, input->entries(), console);
  console.out << Printable(flags.path) << ": " << sent << (sent == 1 ? " tensor sent\n" : " tensors sent\n");
  return kDone;
}

struct RecvFlags {
  std::string destination;
  SocketFlags socket;
  std::string to;
  OutputOptions output;
};

// Errors: as Channel::Receive; InvalidArgument for what is not a request.
absl::StatusOr<Message> ReceiveRequest(Channel& channel, absl::Duration timeout) {
  CASK_ASSIGN_OR_RETURN(Message request, channel.Receive(timeout));
  if (request.request != 0 && !request.is_reply) return request;
  return absl::InvalidArgumentError(absl::StrCat(channel.name(), ": is not a `tensorcask send`"));
}

bool IsOfSend(const Message& request) { return request.topic == kTensorTopic || request.topic == kEndTopic; }

struct Sender {
  Channel channel;
  Message request;  // its first
};

// Waits for a `send`. A client that asks for something else gets an error; neither that client nor one that leaves
// without a request ends the wait.
absl::StatusOr<Sender> AwaitSender(const std::string& socket, ChannelListener& listener, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (absl::Now() < deadline && !Interrupted()) {
    absl::StatusOr<Channel> channel = listener.Accept(kTick);
    if (absl::IsDeadlineExceeded(channel.status())) continue;
    CASK_RETURN_IF_ERROR(channel.status());
    absl::StatusOr<Message> request = absl::UnknownError("");
    {
      const StopWatch watch([&] { channel->Shutdown(); });
      request = ReceiveRequest(*channel, timeout);
    }
    if (absl::IsOutOfRange(request.status()) || absl::IsUnavailable(request.status())) continue;
    CASK_RETURN_IF_ERROR(request.status());
    if (IsOfSend(*request)) return Sender{*std::move(channel), *std::move(request)};
    Message refusal;
    refusal.status = absl::InvalidArgumentError("this is a `tensorcask recv`, which only takes what `send` sends");
    channel->Reply(*request, refusal, timeout).IgnoreError();  // it may be gone
  }
  return absl::DeadlineExceededError(
      absl::StrCat(Printable(socket), ": no sender came within ", absl::ToDoubleSeconds(timeout), " s"));
}

// Saves everything from one `send`, and adds the sizes of the tensors to *element_bytes. The answer to its last request
// is sent when the file is complete.
absl::StatusOr<int64_t> ReceiveAll(Sender& sender, const ArchiveFormat& to, absl::Duration timeout,
                                   ArchiveWriter& output, uint64_t* element_bytes, Console& console) {
  Channel& channel = sender.channel;
  Message request = std::move(sender.request);
  const bool many = to.traits().many_tensors;
  ProgressLine progress(console);
  uint64_t bytes = 0;
  for (int64_t count = 0;;) {
    const bool is_end = request.topic == kEndTopic && request.tensors.empty();
    absl::Status status;
    if (is_end) {
      if (count != 1 && !many) status = Misuse(absl::StrCat(to.name(), " holds one tensor, ", count, " came"));
      if (status.ok()) status = output.Finish();
    } else if (request.topic != kTensorTopic || request.tensors.size() != 1) {
      status = absl::InvalidArgumentError("wanted one tensor, or the end");
    } else if (++count > 1 && !many) {
      status = Misuse(absl::StrCat(to.name(), " holds exactly one tensor, more came"));
    } else {
      const NamedRecord named = ExtractName(std::move(request.tensors[0]), count - 1);
      bytes += MemoryBytes(named.tensor);
      *element_bytes = CheckedAdd(*element_bytes, ElementBytes(named.entry)).value_or(UINT64_MAX);
      status = output.Add(named.entry, named.tensor);
      progress.ShowBytes(absl::StrCat("receiving ", count), bytes);
    }
    Message reply;
    reply.status = absl::Status(status.code(), status.message());
    const absl::Status replied = channel.Reply(request, reply, timeout);
    CASK_RETURN_IF_ERROR(status);
    if (is_end) return count;  // the file is complete, whether the sender learns it or not
    CASK_RETURN_IF_ERROR(replied);
    CASK_ASSIGN_OR_RETURN(request, ReceiveRequest(channel, timeout));
  }
}

absl::StatusOr<ExitCode> Recv(const RecvFlags& flags, Console& console) {
  const AllFormats formats = FormatsWith(flags.output.of_formats);
  CASK_ASSIGN_OR_RETURN(const ArchiveFormat* const to, TargetFormat(flags.destination, flags.to, formats.list()));
  CASK_RETURN_IF_ERROR(CheckSocketFolder(flags.socket.path));
  CatchInterrupts();
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveWriter> output,
                        CreateOutput(flags.destination, *to, flags.output));
  ChannelOptions options;
  options.copy_unsealed = true;  // what is saved must match its checksum, whatever the sender does meanwhile
  CASK_ASSIGN_OR_RETURN(ChannelListener listener, ChannelListener::Listen(flags.socket.path, options));
  absl::StatusOr<Sender> sender = AwaitSender(flags.socket.path, listener, flags.socket.timeout());
  if (!sender.ok() && Interrupted()) return InterruptedExitCode();
  CASK_RETURN_IF_ERROR(sender.status());
  absl::StatusOr<int64_t> count = 0;
  uint64_t element_bytes = 0;
  {
    const StopWatch watch([&] { sender->channel.Shutdown(); });
    count = ReceiveAll(*sender, *to, flags.socket.timeout(), *output, &element_bytes, console);
  }
  if (!count.ok() && Interrupted()) return InterruptedExitCode();
  CASK_RETURN_IF_ERROR(count.status());
  PrintRemoved(output->removed_files(), console);
  console.out << Printable(flags.destination) << ": " << *count << (*count == 1 ? " tensor, " : " tensors, ")
              << HumanBytes(element_bytes) << ", " << to->name() << '\n';
  return kDone;
}

struct ServeFlags {
  std::vector<std::string> paths;
  SocketFlags socket;
  ListenFlags listen;
  InputOptions input;
};

// Returns the memory of an answer to the system at once, and lets all threads share one arena. Otherwise each thread
// keeps the memory of its largest answers.
void KeepLittleMemory() {
#ifdef M_ARENA_MAX
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  mallopt(M_ARENA_MAX, 1);
#endif
}

// Serves at a socket until the process is interrupted.
absl::StatusOr<ExitCode> ServeAtSocket(std::vector<ArchiveService::Source> sources, const SocketFlags& socket,
                                       Console& console);
// The same for other hosts.
absl::StatusOr<ExitCode> ServeRemote(std::vector<ArchiveService::Source> sources, const ServeFlags& flags,
                                     Console& console);

absl::StatusOr<ExitCode> Serve(const ServeFlags& flags, Console& console) {
  if (flags.socket.path.empty() == flags.listen.address.empty()) {
    return Misuse("wanted either --unix SOCKET or --listen HOST:PORT");
  }
  if (flags.listen.insecure && flags.listen.address.empty()) return Misuse("--insecure is for --listen");
  if (flags.listen.certificate.empty() != flags.listen.key.empty()) {
    return Misuse("TLS needs both --certificate and --key");
  }
  if (flags.listen.certificate.empty() && !flags.listen.client_authorities.empty()) {
    return Misuse("--client-ca needs --certificate and --key");
  }
  CASK_RETURN_IF_ERROR(CheckSocketFolder(flags.socket.path));
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
    NoteOverlooked("serve", *source.archive, console);
    for (const ArchiveEntry& entry : source.archive->entries()) {
      absl::Status status = source.archive->CheckReadable(entry);
      has_readable = has_readable || status.ok();
      if (!status.ok()) not_served.push_back(std::move(status));
    }
    sources.push_back(std::move(source));
  }
  if (!has_readable && !not_served.empty()) return not_served[0];
  for (const absl::Status& status : not_served) {
    console.err << "tensorcask serve: not served: " << EscapeControls(status.message()) << '\n';
  }
  return flags.listen.address.empty() ? ServeAtSocket(std::move(sources), flags.socket, console)
                                      : ServeRemote(std::move(sources), flags, console);
}

absl::Status NameFiles(const absl::Status& status) {
  if (!absl::IsAlreadyExists(status)) return status;
  return Misuse(absl::StrCat(status.message(), "; give a file a name of its own: NAME=PATH serves it as NAME/..."));
}

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

absl::StatusOr<ExitCode> ServeAtSocket(std::vector<ArchiveService::Source> sources, const SocketFlags& socket,
                                       Console& console) {
  const absl::StatusOr<std::unique_ptr<ArchiveService>> service = ArchiveService::Create(std::move(sources));
  if (!service.ok()) return NameFiles(service.status());
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
    server->Run(kTick);
  }
  return InterruptedExitCode();
}

// Sets *seconds; the message if `text` is no time to wait.
std::string ParseSeconds(const std::string& text, double* seconds) {
  double parsed = 0;
  const bool is_decimal = text.find_first_of("xX") == std::string::npos;
  if (!is_decimal || !absl::SimpleAtod(text, &parsed) || !(parsed >= 0.001 && parsed <= 1e9)) {
    return absl::StrCat("wanted seconds from 0.001 to 1e9, as in 2.5; found ", Quoted(text));
  }
  *seconds = parsed;
  return "";
}

void AddSocketOptions(CLI::App& app, SocketFlags* flags, const char* what, double timeout_s, bool required = true) {
  app.add_option("--unix", flags->path, what)->required(required)->type_name("SOCKET");
  flags->timeout_s = timeout_s;
  app.add_option_function<std::string>(
         "--timeout", [flags](const std::string& text) { ParseSeconds(text, &flags->timeout_s); },
         absl::StrCat("Give up on a silent peer (default ", timeout_s, ")"))
      ->check(
          [](const std::string& text) {
            double seconds = 0;
            return ParseSeconds(text, &seconds);
          },
          "")
      ->type_name("SECONDS");
}

}  // namespace

Action DeclareSend(CLI::App& app) {
  auto flags = std::make_shared<SendFlags>();
  app.add_option("PATH", flags->path, "A checkpoint's prefix or .index, or another file")->required();
  app.add_option("GLOB", flags->include, "Only names that match: dense/*");
  AddSocketOptions(app, &flags->socket, "Where a `tensorcask recv` waits", 600);
  AddExcludeOption(app, &flags->exclude);
  app.add_flag("--allow-loss", flags->allow_loss,
               "Leave out tensors and metadata that cannot be read, and the name in the metadata if it differs");
  AddInputOptions(app, &flags->input);
  app.footer(
      "Sends tensors with their strides and metadata, one at a time. Exit 0 means that the other side has saved "
      "them.\n\n"
      "Example:\n"
      "  tensorcask send model.ckpt 'dense/*' --unix /run/user/1000/model.sock");
  return [flags](Console& console) { return Send(*flags, console); };
}

Action DeclareRecv(CLI::App& app) {
  auto flags = std::make_shared<RecvFlags>();
  app.add_option("DST", flags->destination,
                 "What to write: its extension names the format; without one it is a checkpoint")
      ->required();
  AddSocketOptions(app, &flags->socket, "The socket to make, for one sender of the same user", 600);
  AddOutputOptions(app, &flags->to, &flags->output);
  app.footer(
      "Waits for one `tensorcask send`, and ends. A client that asks for something else gets an error, and the wait "
      "goes on. DST appears whole or not at all.\n\n"
      "Example:\n"
      "  tensorcask recv copy.ckpt --unix /run/user/1000/model.sock");
  return [flags](Console& console) { return Recv(*flags, console); };
}

Action DeclareServe(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  app.add_option("PATH", flags->paths,
                 "Checkpoint prefixes or .index files, or other files; NAME=PATH serves it as NAME/...")
      ->required();
  AddSocketOptions(app, &flags->socket, "The socket to make, for clients of the same user", 60, /*required=*/false);
  app.add_option("--listen", flags->listen.address, "Serve over gRPC, for clients of grpc://HOST:PORT")
      ->type_name("HOST:PORT");
  app.add_flag("--insecure", flags->listen.insecure, "With --listen: without TLS also where other hosts reach it");
  app.add_option("--certificate", flags->listen.certificate, "With --listen: TLS with this certificate (PEM)")
      ->type_name("FILE");
  app.add_option("--key", flags->listen.key, "The key of the certificate (PEM)")->type_name("FILE");
  app.add_option("--client-ca", flags->listen.client_authorities,
                 "Only clients whose certificate one of these authorities has signed (PEM)")
      ->type_name("FILE");
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
      "  tensorcask ls grpc://127.0.0.1:50051");
  return [flags](Console& console) { return Serve(*flags, console); };
}

}  // namespace tensorcask::tools
