// tensorcask send, recv: tensors between processes on one host, over a Unix socket, and between hosts, over gRPC.

#include <algorithm>
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

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/record_stream.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tools/output/loss_lines.h"
#include "tensorcask/tools/peer_options.h"
#include "tensorcask/tools/siblings/remote_tools.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

// `send` sends one request for each tensor, whose metadata has the name, and one for the end. `recv` answers each, so
// that the sender learns what was saved.
constexpr char kTensorTopic[] = "tensor";
constexpr char kEndTopic[] = "end";

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
          while (!done_ && !Interrupted()) std::this_thread::sleep_for(absl::ToChronoMilliseconds(kPeerTick));
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
  std::vector<std::string> operands;  // behind PATH: patterns, and perhaps an address
  uint64_t step = 0;
  std::vector<std::string> exclude;
  InputOptions input;
  bool allow_loss = false;
};

struct SendOperands {
  std::vector<std::string> globs;
  std::string address;  // "": there is none
};

// Errors: Misuse for two addresses.
absl::StatusOr<SendOperands> SplitOperands(const std::vector<std::string>& operands) {
  SendOperands split;
  for (const std::string& operand : operands) {
    if (!IsRemote(operand)) {
      split.globs.push_back(operand);
    } else if (split.address.empty()) {
      split.address = operand;
    } else {
      return Misuse(absl::StrCat("wanted one address to send to; found ", split.address, " and ", operand));
    }
  }
  return split;
}

using Selection = std::vector<const ArchiveEntry*>;

// Returns how many tensors were sent.
absl::StatusOr<size_t> SendToSocket(const ArchiveReader& input, const Selection& selected, const SendFlags& flags,
                                    Console& console) {
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
                            ReadUnlessLost("send", input, info, flags.allow_loss, console));
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
  CASK_RETURN_IF_ERROR(status);
  return sent;
}

absl::StatusOr<size_t> SendToAddress(std::shared_ptr<const ArchiveReader> input, const Selection& selected,
                                     const std::string& address, const SendFlags& flags, Console& console) {
  PushFlags push;
  push.address = address;
  push.step = static_cast<int64_t>(flags.step);
  push.timeout_s = flags.socket.timeout_s;
  push.allow_loss = flags.allow_loss;
  std::vector<std::string> names;
  for (const ArchiveEntry* const entry : selected) names.push_back(entry->name);
  ProgressLine progress(console, ElementBytes(selected));
  const auto keep_going = [&](uint64_t sent_bytes) {
    progress.ShowBytes("sending", sent_bytes);
    return !Interrupted();
  };
  const auto note = [&](const std::string& sentence) {
    console.err << "tensorcask send: note: " << EscapeControls(sentence) << '\n';
  };
  CASK_RETURN_IF_ERROR(GetRemoteTools()->push(push, std::move(input), names, keep_going, note));
  return names.size();
}

absl::StatusOr<ExitCode> Send(const SendFlags& flags, Console& console) {
  CASK_ASSIGN_OR_RETURN(const SendOperands operands, SplitOperands(flags.operands));
  if (operands.address.empty() == flags.socket.path.empty()) {
    return Misuse("wanted either --unix SOCKET or an address, as in grpc://HOST:PORT, to send to");
  }
  if (operands.address.empty() && flags.step != 0) return Misuse("--step is for an address, as in grpc://HOST:PORT");
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ArchiveReader> input, OpenInput(flags.path, flags.input));
  NoteOverlooked("send", *input, console);
  CASK_RETURN_IF_ERROR(CheckMatched(operands.globs, {input.get()}));
  CASK_ASSIGN_OR_RETURN(const Selection selected,
                        SelectReadable("send", *input, operands.globs, flags.exclude, flags.allow_loss, console));
  if (operands.address.empty()) NoteLeftOut("send", *input, console);
  CatchInterrupts();
  const absl::StatusOr<size_t> sent = operands.address.empty()
                                          ? SendToSocket(*input, selected, flags, console)
                                          : SendToAddress(input, selected, operands.address, flags, console);
  if (Interrupted()) return InterruptedExitCode();
  CASK_RETURN_IF_ERROR(sent.status());
  NoteAllUnmatched("send", "--exclude ", flags.exclude, input->entries(), console);
  console.out << Printable(flags.path) << ": " << *sent << (*sent == 1 ? " tensor sent\n" : " tensors sent\n");
  return kDone;
}

struct RecvFlags {
  std::vector<std::string> operands;  // DST, or an address and DST
  SocketFlags socket;
  ListenFlags listen;
  std::string to;
  OutputOptions output;
  bool allow_loss = false;
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
    absl::StatusOr<Channel> channel = listener.Accept(kPeerTick);
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

// Errors: InvalidArgument for what the format cannot hold; with `allow_loss`, a line instead.
absl::Status CheckHeld(const NamedRecord& named, const ArchiveFormat& to, bool allow_loss, Console& console) {
  std::string lost;
  if (!named.entry.strides.empty() && !to.traits().strides) lost = "strides";
  if (!to.HoldsMetadata(named.tensor.metadata)) absl::StrAppend(&lost, lost.empty() ? "" : " and ", "metadata");
  if (lost.empty()) return absl::OkStatus();
  const std::string sentence = absl::StrCat("tensor ", Quoted(named.entry.name), " has ", lost, ", which ",
                                            to.name_with_article(), " file cannot hold");
  if (!allow_loss) {
    return absl::InvalidArgumentError(absl::StrCat(sentence, "; recv --allow-loss leaves that out"));
  }
  console.out << "lost: " << EscapeControls(sentence) << '\n';
  return absl::OkStatus();
}

// Saves everything from one `send`, and adds the sizes of the tensors to *element_bytes. The answer to its last request
// is sent when the file is complete.
absl::StatusOr<int64_t> ReceiveAll(Sender& sender, const ArchiveFormat& to, bool allow_loss, absl::Duration timeout,
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
      status = CheckHeld(named, to, allow_loss, console);
      if (status.ok()) status = output.Add(named.entry, named.tensor);
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

// What was saved.
struct Received {
  int64_t count = 0;
  uint64_t element_bytes = 0;
  std::vector<std::string> removed_files;
};

struct Target {
  const std::string& path;
  const ArchiveFormat& format;
  const OutputOptions& options;
  bool allow_loss;
};

// Errors: Misuse for a format of one tensor.
absl::Status CheckCount(const Target& to, size_t count) {
  if (count == 1 || to.format.traits().many_tensors) return absl::OkStatus();
  return Misuse(absl::StrCat(to.format.name(), " holds one tensor, ", count, " came"));
}

// Saves all of `input`, as `convert` does.
absl::StatusOr<Received> SaveAll(const ArchiveReader& input, const Target& to, Console& console) {
  CASK_RETURN_IF_ERROR(CheckCount(to, input.entries().size()));
  CASK_ASSIGN_OR_RETURN(const ArchiveWriterOptions write, WriterOptions(to.path, to.format, to.options));
  ConvertOptions options;
  options.allow_loss = to.allow_loss;
  std::optional<ProgressLine> progress;
  options.planned = [&](const ConversionPlan& plan, const ReplacedFiles& /*replaced*/) {
    PrintLosses(plan, console);
    progress.emplace(console, plan.bytes);
  };
  options.progress = [&](int64_t tensors, uint64_t bytes) {
    progress->ShowBytes(absl::StrCat("receiving ", tensors, "/", input.entries().size()), bytes);
    return !Interrupted();
  };
  const absl::StatusOr<ConvertReport> report = ConvertArchives({&input}, to.path, to.format, options, write);
  progress.reset();
  if (!report.ok()) return NameOverwrite(report.status());
  PrintNotes("recv", report->notes, console);
  return Received{report->tensors, report->bytes, report->removed};
}

absl::StatusOr<Received> ReceiveAtSocket(const RecvFlags& flags, const Target& to, Console& console) {
  Received received;
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveWriter> output, CreateOutput(to.path, to.format, to.options));
  ChannelOptions options;
  options.copy_unsealed = true;  // what is saved must match its checksum, whatever the sender does meanwhile
  CASK_ASSIGN_OR_RETURN(ChannelListener listener, ChannelListener::Listen(flags.socket.path, options));
  CASK_ASSIGN_OR_RETURN(Sender sender, AwaitSender(flags.socket.path, listener, flags.socket.timeout()));
  const StopWatch watch([&] { sender.channel.Shutdown(); });
  CASK_ASSIGN_OR_RETURN(received.count, ReceiveAll(sender, to.format, to.allow_loss, flags.socket.timeout(), *output,
                                                   &received.element_bytes, console));
  received.removed_files = output->removed_files();
  return received;
}

// Takes one push over gRPC. The client learns whether it was saved.
absl::StatusOr<Received> ReceivePush(const RecvFlags& flags, const Target& to, Console& console) {
  // A sender should not wait for what cannot be saved.
  CASK_RETURN_IF_ERROR(CreateOutput(to.path, to.format, to.options).status());
  ListenFlags listen = flags.listen;
  listen.timeout_s = flags.socket.timeout_s;
  Received received;
  const auto save = [&](const ArchiveReader& all) -> absl::Status {
    CASK_ASSIGN_OR_RETURN(received, SaveAll(all, to, console));
    return absl::OkStatus();
  };
  CASK_RETURN_IF_ERROR(GetRemoteTools()->receive(listen, save, console));
  return received;
}

absl::StatusOr<Received> PullOnce(const std::string& address, const Target& to, Console& console) {
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> input, OpenInput(address, InputOptions()));
  NoteOverlooked("recv", *input, console);
  return SaveAll(*input, to, console);
}

// Pulls all tensors of a server. If the server replaces them meanwhile, it begins again with the new ones. An Aborted
// of the target, which another program has replaced meanwhile, ends the pull.
absl::StatusOr<Received> Pull(const std::string& address, const RecvFlags& flags, const Target& to, Console& console) {
  const absl::Time deadline = absl::Now() + flags.socket.timeout();
  absl::Duration pause = kPeerTick;
  while (true) {
    absl::StatusOr<Received> received = PullOnce(address, to, console);
    const bool is_stale = GetRemoteTools()->is_new_version(received.status());
    if (!is_stale || absl::Now() >= deadline || Interrupted()) return received;
    absl::SleepFor(pause);
    pause = std::min(2 * pause, absl::Seconds(1));
  }
}

absl::StatusOr<ExitCode> Recv(const RecvFlags& flags, Console& console) {
  const bool pulls = flags.operands.size() == 2;
  const std::string& destination = flags.operands.back();
  if (pulls) {
    if (!IsRemote(flags.operands[0])) {
      return Misuse(
          absl::StrCat("wanted an address, as in grpc://HOST:PORT, before DST; found ", Printable(flags.operands[0])));
    }
    if (!flags.socket.path.empty() || !flags.listen.address.empty()) {
      return Misuse("with an address, recv takes neither --unix nor --listen");
    }
  } else if (IsRemote(destination)) {
    return Misuse(absl::StrCat("wanted DST behind ", destination));
  } else {
    CASK_RETURN_IF_ERROR(CheckPlace(flags.socket, flags.listen));
  }
  const AllFormats formats = FormatsWith(flags.output.of_formats);
  CASK_ASSIGN_OR_RETURN(const ArchiveFormat* const format, TargetFormat(destination, flags.to, formats.list()));
  const Target to{destination, *format, flags.output, flags.allow_loss};
  CatchInterrupts();
  const absl::StatusOr<Received> received = pulls                       ? Pull(flags.operands[0], flags, to, console)
                                            : flags.socket.path.empty() ? ReceivePush(flags, to, console)
                                                                        : ReceiveAtSocket(flags, to, console);
  if (!received.ok() && Interrupted()) return InterruptedExitCode();
  CASK_RETURN_IF_ERROR(received.status());
  PrintRemoved(received->removed_files, console);
  console.out << Printable(destination) << ": " << received->count
              << (received->count == 1 ? " tensor, " : " tensors, ") << HumanBytes(received->element_bytes) << ", "
              << format->name() << '\n';
  return kDone;
}

}  // namespace

Action DeclareSend(CLI::App& app) {
  auto flags = std::make_shared<SendFlags>();
  app.add_option("PATH", flags->path, "A checkpoint's prefix or .index, or another file")->required();
  app.add_option("GLOB", flags->operands, "Only names that match: dense/*; grpc://HOST:PORT is where to send to");
  AddSocketOptions(app, &flags->socket, "Where a `tensorcask recv` waits", 600);
  AddNumberOption(app, "--step", "N", 0, INT64_MAX, &flags->step,
                  "With grpc://: the step that the tensors get on the server (default 0)");
  AddExcludeOption(app, &flags->exclude);
  app.add_flag("--allow-loss", flags->allow_loss,
               "Leave out tensors and metadata that cannot be read, the name in the metadata if it differs, and with "
               "grpc:// objects beside the tensors that have no text");
  AddInputOptions(app, &flags->input);
  app.footer(
      "Sends tensors with their strides and metadata, one at a time. Exit 0 means that the other side has saved "
      "them.\n\n"
      "Over gRPC, the other side is a `tensorcask recv --listen`, or a server that accepts pushes, which then offers "
      "these tensors in place of its own. The metadata of the file goes along; its values become texts, as in "
      "safetensors, and a line names those that have none.\n\n"
      "Examples:\n"
      "  tensorcask send model.ckpt 'dense/*' --unix /run/user/1000/model.sock\n"
      "  tensorcask send model.ckpt grpc://127.0.0.1:50051");
  return [flags](Console& console) { return Send(*flags, console); };
}

Action DeclareRecv(CLI::App& app) {
  auto flags = std::make_shared<RecvFlags>();
  app.add_option("DST", flags->operands,
                 "What to write: its extension names the format; without one it is a checkpoint. With grpc://HOST:PORT "
                 "before it: the tensors of that server")
      ->required()
      ->expected(1, 2);
  AddSocketOptions(app, &flags->socket, "The socket to make, for one sender of the same user", 600);
  AddListenOptions(app, &flags->listen, "Take one push over gRPC at HOST:PORT, from a send to grpc://HOST:PORT");
  AddOutputOptions(app, &flags->to, &flags->output);
  app.add_flag("--allow-loss", flags->allow_loss,
               "Leave out what DST cannot hold, such as metadata and strides; each is listed");
  app.footer(
      "Waits for one `tensorcask send`, and ends. A client that asks for something else gets an error, and the wait "
      "goes on. DST appears whole or not at all.\n\n"
      "With --listen, the tensors of a push are in memory until all have arrived; a push that breaks leaves nothing, "
      "and the wait goes on. Port 0 is any that is free. With an address, recv copies the tensors of a server, all of "
      "one version.\n\n"
      "Examples:\n"
      "  tensorcask recv copy.ckpt --unix /run/user/1000/model.sock\n"
      "  tensorcask recv copy.ckpt --listen 127.0.0.1:50051\n"
      "  tensorcask recv grpc://127.0.0.1:50051 copy.safetensors");
  return [flags](Console& console) { return Recv(*flags, console); };
}

}  // namespace tensorcask::tools
