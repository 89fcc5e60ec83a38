// tensorcask send, recv, serve: tensors between processes on one host, over a Unix socket.

#include <atomic>
#include <chrono>
#include <functional>
#include <iterator>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/record_stream.h"
#include "tensorcask/tools/served_input.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

// Between send and recv: a request a tensor, whose metadata has its name, and one for the end. Each is answered, so
// that the sender knows what became of it.
constexpr char kTensorTopic[] = "tensor";
constexpr char kEndTopic[] = "end";

constexpr absl::Duration kPatience = absl::Minutes(1);  // with a peer that should answer
constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr size_t kMaxClients = 64;  // more wait to be accepted

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
  std::string socket;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::string format;
  bool allow_loss = false;
};

absl::Status CallOk(Channel& channel, const Message& request) {
  CASK_ASSIGN_OR_RETURN(const Message reply, channel.Call(request, kPatience));
  return reply.status;
}

absl::StatusOr<ExitCode> Send(const SendFlags& flags, Console& console) {
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<Input> input, OpenInput(flags.path, flags.format));
  const std::vector<TensorInfo> selected = Select(input->tensors(), flags.include, flags.exclude);
  CASK_RETURN_IF_ERROR(input->CheckFiles());
  CatchInterrupts();
  CASK_ASSIGN_OR_RETURN(Channel channel, Channel::Connect(flags.socket, kPatience));
  const StopWatch watch([&] { channel.Shutdown(); });
  const auto send_all = [&]() -> absl::Status {
    for (const TensorInfo& info : selected) {
      CASK_ASSIGN_OR_RETURN(DecodedTensor tensor, ReadToCopy(*input, info, flags.allow_loss));
      if (flags.allow_loss) tensor.metadata.name.clear();
      Message message;
      message.topic = kTensorTopic;
      CASK_ASSIGN_OR_RETURN(tensor, PutName(info.name, std::move(tensor)));
      message.tensors.push_back(std::move(tensor));
      CASK_RETURN_IF_ERROR(CallOk(channel, message));
    }
    Message end;
    end.topic = kEndTopic;
    return CallOk(channel, end);
  };
  const absl::Status status = send_all();
  if (Interrupted()) return InterruptedExitCode();
  CASK_RETURN_IF_ERROR(status);
  console.out << Printable(flags.path) << ": " << selected.size()
              << (selected.size() == 1 ? " tensor sent\n" : " tensors sent\n");
  return kDone;
}

struct RecvFlags {
  std::string destination;
  std::string socket;
  std::string to;
  OutputOptions output;
};

// Takes what one `send` has; the answer to its last request is sent when the file is there.
absl::StatusOr<int64_t> ReceiveAll(Channel& channel, const std::string& to, Output& output) {
  for (int64_t count = 0;;) {
    CASK_ASSIGN_OR_RETURN(Message request, channel.Receive(Deadline::Never()));
    const bool is_end = request.topic == kEndTopic && request.tensors.empty();
    absl::Status status;
    if (request.request == 0) return absl::InvalidArgumentError(absl::StrCat(channel.name(), ": is no `send`"));
    if (is_end) {
      if (count != 1 && !HoldsManyTensors(to)) status = Misuse(absl::StrCat(to, " holds one tensor, ", count, " came"));
      if (status.ok()) status = output.Finish();
    } else if (request.topic != kTensorTopic || request.tensors.size() != 1) {
      status = absl::InvalidArgumentError("wanted one tensor, or the end");
    } else if (++count > 1 && !HoldsManyTensors(to)) {
      status = Misuse(absl::StrCat(to, " holds exactly one tensor, more came"));
    } else {
      const NamedTensor named = TakeName(std::move(request.tensors[0]), count - 1);
      status = output.Add(named.info, named.tensor);
    }
    Message reply;
    reply.status = absl::Status(status.code(), status.message());
    const absl::Status replied = channel.Reply(request, reply, kPatience);
    CASK_RETURN_IF_ERROR(status);
    if (is_end) return count;  // the file is there, whether the sender hears it or not
    CASK_RETURN_IF_ERROR(replied);
  }
}

absl::StatusOr<ExitCode> Recv(const RecvFlags& flags, Console& console) {
  const std::string to(flags.to.empty() ? FormatForName(flags.destination) : absl::string_view(flags.to));
  CatchInterrupts();
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<Output> output, CreateOutput(flags.destination, to, flags.output));
  CASK_ASSIGN_OR_RETURN(ChannelListener listener, ChannelListener::Listen(flags.socket));
  absl::StatusOr<Channel> channel = absl::UnknownError("");
  do {
    if (Interrupted()) return InterruptedExitCode();
    channel = listener.Accept(kTick);
  } while (absl::IsDeadlineExceeded(channel.status()));
  CASK_RETURN_IF_ERROR(channel.status());
  absl::StatusOr<int64_t> count = 0;
  {
    const StopWatch watch([&] { channel->Shutdown(); });
    count = ReceiveAll(*channel, to, *output);
  }
  if (!count.ok() && Interrupted()) return InterruptedExitCode();
  CASK_RETURN_IF_ERROR(count.status());
  console.out << Printable(flags.destination) << ": " << *count << (*count == 1 ? " tensor, " : " tensors, ") << to
              << '\n';
  return kDone;
}

struct ServeFlags {
  std::vector<std::string> paths;
  std::string socket;
  std::string format;
};

struct Client {
  explicit Client(Channel to) : channel(std::move(to)) {}
  Channel channel;
  std::atomic<bool> done{false};
  std::thread thread;
};

// Until the client goes, or says nothing that it should. What ends a channel concerns that client alone.
void ServeClient(const std::vector<std::unique_ptr<Input>>& inputs, Client& client) {
  while (!Interrupted()) {
    const absl::StatusOr<Message> request = client.channel.Receive(kPatience);
    if (absl::IsDeadlineExceeded(request.status()))
      continue;  // it is quiet; if a frame was cut off, the next call fails
    if (!request.ok() || request->request == 0) break;
    if (!client.channel.Reply(*request, Answer(inputs, *request), kPatience).ok()) break;
  }
  client.channel.Shutdown();
  client.done = true;
}

absl::StatusOr<ExitCode> Serve(const ServeFlags& flags, Console& console) {
  std::vector<std::unique_ptr<Input>> inputs;
  std::set<std::string> names;
  for (const std::string& path : flags.paths) {
    CASK_ASSIGN_OR_RETURN(std::unique_ptr<Input> input, OpenInput(path, flags.format));
    CASK_RETURN_IF_ERROR(input->CheckFiles());
    for (const TensorInfo& info : input->tensors()) {
      if (!names.insert(info.name).second) return Misuse(absl::StrCat("two tensors are called ", Quoted(info.name)));
    }
    inputs.push_back(std::move(input));
  }
  CatchInterrupts();
  CASK_ASSIGN_OR_RETURN(ChannelListener listener, ChannelListener::Listen(flags.socket));
  console.out << Printable(flags.socket) << ": serving " << names.size()
              << (names.size() == 1 ? " tensor\n" : " tensors\n");
  console.out.flush();

  std::list<Client> clients;
  const auto end = [](Client& client) { client.thread.join(); };
  while (!Interrupted()) {
    for (auto client = clients.begin(); client != clients.end();) {
      if (client->done) end(*client);
      client = client->done ? clients.erase(client) : std::next(client);
    }
    if (clients.size() >= kMaxClients) {
      std::this_thread::sleep_for(absl::ToChronoMilliseconds(kTick));
      continue;
    }
    absl::StatusOr<Channel> accepted = listener.Accept(kTick);
    if (!accepted.ok()) continue;  // nobody came, a stranger, no descriptors: the next may be welcome
    Client& client = clients.emplace_back(*std::move(accepted));
    client.thread = std::thread([&inputs, &client] { ServeClient(inputs, client); });
  }
  for (Client& client : clients) client.channel.Shutdown();
  for (Client& client : clients) end(client);
  return InterruptedExitCode();
}

void AddSocketOption(CLI::App& app, std::string* socket, const char* what) {
  app.add_option("--unix", *socket, what)->required()->type_name("SOCKET");
}

}  // namespace

Action DeclareSend(CLI::App& app) {
  auto flags = std::make_shared<SendFlags>();
  app.add_option("PATH", flags->path, "A checkpoint's prefix or .index, or another file")->required();
  app.add_option("GLOB", flags->include, "Only names that match: dense/*");
  AddSocketOption(app, &flags->socket, "Where a `tensorcask recv` waits");
  AddExcludeOption(app, &flags->exclude);
  app.add_flag("--allow-loss", flags->allow_loss,
               "Leave out metadata that cannot be read, and a second name that a tensor may have");
  AddFormatOption(app, &flags->format);
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
                 "What to write: a checkpoint's prefix, or a .pb, .pbtxt, .textproto or .tfrecord")
      ->required();
  AddSocketOption(app, &flags->socket, "The socket to make, for one sender of the same user");
  AddOutputOptions(app, &flags->to, &flags->output);
  app.footer(
      "Waits for one `tensorcask send`, and ends. DST appears whole or not at all.\n\n"
      "Example:\n"
      "  tensorcask recv copy.ckpt --unix /run/user/1000/model.sock");
  return [flags](Console& console) { return Recv(*flags, console); };
}

Action DeclareServe(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  app.add_option("PATH", flags->paths, "Checkpoint prefixes or .index files, or other files")->required();
  AddSocketOption(app, &flags->socket, "The socket to make, for clients of the same user");
  AddFormatOption(app, &flags->format);
  app.footer(
      "Answers until it is interrupted. Every command that reads takes unix:SOCKET for a PATH; up to 64 clients are\n"
      "served at once.\n\n"
      "Example:\n"
      "  tensorcask serve model.ckpt --unix /run/user/1000/model.sock &\n"
      "  tensorcask show --slice 0,10:- unix:/run/user/1000/model.sock dense/kernel");
  return [flags](Console& console) { return Serve(*flags, console); };
}

}  // namespace tensorcask::tools
