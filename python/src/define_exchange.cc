#include "tensorcask/python/src/bindings.h"

#include <nanobind/stl/unique_ptr.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/python/src/arguments.h"
#include "tensorcask/python/src/arrays.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/process_mutex.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/python/src/numpy_dtypes.h"
#include "tensorcask/python/src/tensor_object.h"
#include "tensorcask/python/src/writer.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/tensor.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

struct Outgoing {
  Message message;
  std::vector<RefPtr<RefCounted>> pins;
};

void AddTensor(nb::handle object, const std::string& name, Outgoing* out) {
  DecodedTensor tensor;
  if (std::optional<TensorView> own = OwnMemoryOf(object); own.has_value()) {
    tensor.view = *std::move(own);
    out->pins.push_back(PinMemory(tensor.view));
  } else {
    PinnedTensor pinned = FromTensorArgument(object, name);
    tensor.view = std::move(pinned.view);
    out->pins.push_back(std::move(pinned.pin));
  }
  tensor.metadata.name = name;
  out->message.tensors.push_back(std::move(tensor));
}

// Of one array, a sequence of arrays or a mapping of names to arrays.
Outgoing FromTensors(nb::handle tensors, nb::handle topic) {
  Outgoing out;
  out.message.topic = FromText(topic, "topic");
  if (nb::hasattr(tensors, "items")) {
    for (const nb::handle item : nb::iter(tensors.attr("items")())) {
      AddTensor(item[1], FromText(item[0], "the name of a tensor"), &out);
    }
  } else if (PyList_Check(tensors.ptr()) || PyTuple_Check(tensors.ptr())) {
    for (const nb::handle tensor : nb::iter(tensors)) AddTensor(tensor, "", &out);
  } else if (!tensors.is_none()) {
    AddTensor(tensors, "", &out);
  }
  return out;
}

nb::dict ToNamed(const Message& message) {
  nb::dict result;
  int64_t number = 0;
  for (const DecodedTensor& tensor : message.tensors) {
    const std::string& name = tensor.metadata.name;
    result[name.empty() ? nb::object(nb::int_(number)) : ToText(name)] = ToNumpy(tensor.view);
    ++number;
  }
  return result;
}

nb::list ToList(const Message& message, bool as_tensor) {
  nb::list result;
  for (const DecodedTensor& tensor : message.tensors) {
    result.append(as_tensor ? ToTensorObject(tensor.view) : ToNumpy(tensor.view));
  }
  return result;
}

// A channel that several threads of Python may share: one sends while another receives.
class PythonChannel {
 public:
  explicit PythonChannel(Channel channel) : channel_(std::make_shared<Channel>(std::move(channel))) {}

  void Send(nb::handle tensors, nb::handle topic, nb::handle timeout) {
    const Outgoing out = FromTensors(tensors, topic);
    const Deadline deadline = FromTimeout(timeout);
    Check(Wait<absl::Status>(&sending_, [&](Channel& channel) { return channel.Send(out.message, deadline); }));
  }
  std::optional<Message> Receive(nb::handle timeout) {
    const Deadline deadline = FromTimeout(timeout);
    absl::StatusOr<Message> message =
        Wait<absl::StatusOr<Message>>(&receiving_, [&](Channel& channel) { return channel.Receive(deadline); });
    if (absl::IsOutOfRange(message.status())) return std::nullopt;  // the other side has ended the channel
    return Take(std::move(message));
  }
  Message Call(nb::handle tensors, nb::handle topic, nb::handle timeout) {
    const Outgoing out = FromTensors(tensors, topic);
    const Deadline deadline = FromTimeout(timeout);
    Message reply = Take(Wait<absl::StatusOr<Message>>(&receiving_, [&](Channel& channel) {
      const std::lock_guard<ProcessMutex> lock(sending_);
      return channel.Call(out.message, deadline);
    }));
    Check(reply.status);
    return reply;
  }
  void Reply(const Message& request, nb::handle tensors, nb::handle error, nb::handle timeout) {
    if (request.request == 0) Raise(absl::InvalidArgumentError("the message is not a request: it awaits no reply"));
    Outgoing out = FromTensors(tensors, request_topic(request));
    if (!error.is_none()) out.message.status = absl::InvalidArgumentError(TextOf(error));
    const Deadline deadline = FromTimeout(timeout);
    Check(
        Wait<absl::Status>(&sending_, [&](Channel& channel) { return channel.Reply(request, out.message, deadline); }));
  }
  void Close(nb::handle timeout) {
    if (channel_ == nullptr) return;
    const Deadline deadline = FromTimeout(timeout);
    const absl::Status status =
        Wait<absl::Status>(&sending_, [&](Channel& channel) { return channel.Close(deadline); });
    channel_.reset();
    Check(status);
  }
  void Shutdown() {
    if (channel_ != nullptr) channel_->Shutdown();
  }
  bool is_closed() const { return channel_ == nullptr; }
  std::string name() const { return channel_ == nullptr ? "closed" : channel_->name(); }

 private:
  static nb::object request_topic(const Message& request) { return ToText(request.topic); }

  template <typename Result, typename Fn>
  Result Wait(ProcessMutex* mutex, Fn&& fn) {
    const std::shared_ptr<Channel> channel = channel_;
    if (channel == nullptr) RaiseClosed("the channel is closed");
    return WaitWithoutGil(
        [&]() -> Result {
          const std::lock_guard<ProcessMutex> lock(*mutex);
          return fn(*channel);
        },
        [&] { channel->Shutdown(); });
  }

  std::shared_ptr<Channel> channel_;  // null once closed
  ProcessMutex sending_;
  ProcessMutex receiving_;
};

class Listener {
 public:
  explicit Listener(const std::string& path)
      : listener_(std::make_shared<ChannelListener>(Take(WithoutGil([&] { return ChannelListener::Listen(path); })))) {}

  std::unique_ptr<PythonChannel> Accept(nb::handle timeout) {
    const std::shared_ptr<ChannelListener> listener = listener_;
    if (listener == nullptr) RaiseClosed("the listener is closed");
    const Deadline deadline = FromTimeout(timeout);
    return std::make_unique<PythonChannel>(
        Take(WaitWithoutGil([&] { return listener->Accept(deadline); }, [&] { listener->Shutdown(); })));
  }
  void Close() {
    if (listener_ != nullptr) listener_->Shutdown();
    listener_.reset();
  }
  bool is_closed() const { return listener_ == nullptr; }
  std::string path() const { return listener_ == nullptr ? "" : listener_->path(); }

 private:
  std::shared_ptr<ChannelListener> listener_;  // null once closed
};

// ---- Shared memory --------------------------------------------------------------------------------------------------

class SharedMemory {
 public:
  explicit SharedMemory(uint64_t max_bytes) {
    SharedMemoryAllocator::Options options;
    options.max_total_bytes = max_bytes;
    options.min_shared_bytes = 1;
    allocator_ = Take(SharedMemoryAllocator::Create(options));
  }

  nb::object Empty(nb::handle shape, nb::handle dtype) {
    std::vector<int64_t> dims;
    if (PyIndex_Check(shape.ptr()) != 0) {
      dims.push_back(nb::cast<int64_t>(shape));
    } else {
      for (const nb::handle dim : nb::iter(shape)) dims.push_back(nb::cast<int64_t>(dim));
    }
    const TensorShape checked = Take(TensorShape::Create(dims));
    const DType type = FromDTypeArgument(dtype);
    if (!IsFixedSize(type)) Raise(absl::InvalidArgumentError("shared memory holds numbers, not objects"));
    return ToNumpy(Take(WithoutGil([&] { return Tensor::Zeros(type, checked, allocator_); })));
  }
  uint64_t total_bytes() const { return allocator_->total_bytes(); }

 private:
  RefPtr<SharedMemoryAllocator> allocator_;
};

// ---- The classes ----------------------------------------------------------------------------------------------------

#define TENSORCASK_TIMEOUT nb::arg("timeout").none() = nb::none()

constexpr char kSent[] =
    "Sends an array, a sequence of arrays or a mapping of names to arrays. Arrays of a SharedMemory, and received "
    "ones, "
    "cross without a copy whatever their size; do not write to them afterwards. All others are copied once.";

// The other side is a process in a program, and a thread in an example.
constexpr char kMessageText[] =
    "What a channel received.\n\n"
    "    >>> import threading, numpy as np, tensorcask as tc\n"
    "    >>> listener = tc.Listener('messages')\n"
    "    >>> def produce():\n"
    "    ...     with tc.Channel.connect('messages') as channel:\n"
    "    ...         channel.send({'x': np.arange(3)}, topic='numbers')\n"
    "    >>> producer = threading.Thread(target=produce)\n"
    "    >>> producer.start()\n"
    "    >>> channel = listener.accept()\n"
    "    >>> message = channel.receive()\n"
    "    >>> message.topic, message.tensors['x'].tolist()\n"
    "    ('numbers', [0, 1, 2])\n"
    "    >>> producer.join()\n";

constexpr char kChannelText[] =
    "Messages of tensors between two processes of one machine. Deadlines are seconds; None waits for ever. After "
    "Ctrl-C in a call that waits, the channel is closed.\n\n"
    "    >>> import threading, numpy as np, tensorcask as tc\n"
    "    >>> listener = tc.Listener('sums')\n"
    "    >>> def serve():\n"
    "    ...     with listener.accept(timeout=60) as channel:\n"
    "    ...         while (request := channel.receive()) is not None:\n"
    "    ...             channel.reply(request, {'sum': request.tensors['x'].sum()})\n"
    "    >>> server = threading.Thread(target=serve)      # in a program: another process\n"
    "    >>> server.start()\n"
    "    >>> with tc.Channel.connect('sums', timeout=60) as channel:\n"
    "    ...     print(channel.call({'x': np.arange(4)}).tensors['sum'])\n"
    "    6\n"
    "    >>> server.join()\n\n"
    "Raises TimeoutError after a timeout, and ConnectionError if the other process has ended.";

constexpr char kListenerText[] =
    "A Unix socket at a path, to which processes of the same user connect.\n\n"
    "    >>> import tensorcask as tc\n"
    "    >>> with tc.Listener('socket') as listener:\n"
    "    ...     try:\n"
    "    ...         listener.accept(timeout=0.01)\n"
    "    ...     except TimeoutError:\n"
    "    ...         print('no client')\n"
    "    no client\n";

void DefineMessage(nb::module_& m) {
  nb::class_<Message>(m, "Message", kMessageText)
      .def_prop_ro(
          "topic", [](const Message& message) { return ToText(message.topic); }, nb::sig("def topic(self) -> str"))
      .def_prop_ro(
          "tensors", [](const Message& message) { return ToNamed(message); },
          nb::sig("def tensors(self) -> dict[str | int, numpy.ndarray]"),
          "By name; those without a name by their number. Large ones are read-only shared memory.")
      .def(
          "arrays", [](const Message& message, bool tensor) { return ToList(message, tensor); }, nb::kw_only(),
          nb::arg("tensor") = false, nb::sig("def arrays(self, *, tensor: bool = False) -> list[typing.Any]"),
          "In the order of the message, as numpy.ndarray or tensorcask.Tensor.")
      .def_prop_ro(
          "is_request", [](const Message& message) { return message.request != 0 && !message.is_reply; },
          "True if the other side awaits ``Channel.reply``.");
}

void DefineChannel(nb::module_& m) {
  nb::class_<PythonChannel>(m, "Channel", nb::is_weak_referenceable(), kChannelText)
      .def_static(
          "connect",
          [](nb::handle path, nb::handle timeout) {
            const std::string text = FromPath(path);
            const Deadline deadline = FromTimeout(timeout);
            return std::make_unique<PythonChannel>(Take(WithoutGil([&] { return Channel::Connect(text, deadline); })));
          },
          nb::arg("path"), TENSORCASK_TIMEOUT,
          nb::sig("def connect(path: str | os.PathLike[str], timeout: float | None = None) -> Channel"),
          "Waits until a Listener listens at the path.")
      .def("send", &PythonChannel::Send, nb::arg("tensors"), nb::kw_only(), nb::arg("topic") = "", TENSORCASK_TIMEOUT,
           nb::sig("def send(self, tensors: object, *, topic: str = '', timeout: float | None = None) -> None"), kSent)
      .def(
          "receive",
          [](PythonChannel& self, nb::handle timeout) -> nb::object {
            std::optional<Message> message = self.Receive(timeout);
            return message.has_value() ? nb::cast(*std::move(message)) : nb::none();
          },
          TENSORCASK_TIMEOUT, nb::sig("def receive(self, timeout: float | None = None) -> Message | None"),
          "The next message; None after the other side has closed the channel.")
      .def("call", &PythonChannel::Call, nb::arg("tensors").none(), nb::kw_only(), nb::arg("topic") = "",
           TENSORCASK_TIMEOUT,
           nb::sig("def call(self, tensors: object, *, topic: str = '', timeout: float | None = None) -> Message"),
           "Sends a request and returns the reply; raises the error that the other side replied with.")
      .def("reply", &PythonChannel::Reply, nb::arg("request"), nb::arg("tensors").none() = nb::none(), nb::kw_only(),
           nb::arg("error").none() = nb::none(), TENSORCASK_TIMEOUT,
           nb::sig("def reply(self, request: Message, tensors: object = None, *, error: object = None, "
                   "timeout: float | None = None) -> None"),
           "Answers a request with tensors, or with the text of an error.")
      .def("close", &PythonChannel::Close, TENSORCASK_TIMEOUT,
           nb::sig("def close(self, timeout: float | None = None) -> None"),
           "Waits until the other side has received everything, and ends the channel.")
      .def("shutdown", &PythonChannel::Shutdown, "Ends both directions at once, from any thread.")
      .def_prop_ro("closed", &PythonChannel::is_closed)
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __enter__(self) -> Channel"))
      .def(
          "__exit__",
          [](PythonChannel& self, nb::handle type, nb::handle, nb::handle) {
            if (!type.is_none()) self.Shutdown();
            if (type.is_none()) self.Close(nb::none());
          },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none(),
          nb::sig("def __exit__(self, type: object, value: object, traceback: object) -> None"))
      .def(
          "__repr__",
          [](const PythonChannel& self) { return ToText(absl::StrCat("<tensorcask.Channel ", self.name(), ">")); },
          nb::sig("def __repr__(self) -> str"));
}

void DefineListener(nb::module_& m) {
  nb::class_<Listener>(m, "Listener", kListenerText)
      .def(
          "__init__",
          [](Listener* self, nb::handle path, const nb::kwargs& others) {
            CheckKeywords<Listener>(others, path, "path");
            new (self) Listener(FromPath(path));
          },
          nb::arg("path").none() = nb::none(), nb::arg("others"),
          nb::sig("def __init__(self, path: str | os.PathLike[str]) -> None"))
      .def("accept", &Listener::Accept, TENSORCASK_TIMEOUT,
           nb::sig("def accept(self, timeout: float | None = None) -> Channel"), "Waits for the next client.")
      .def("close", &Listener::Close)
      .def_prop_ro("closed", &Listener::is_closed)
      .def_prop_ro(
          "path", [](const Listener& self) { return ToText(self.path()); }, nb::sig("def path(self) -> str"))
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __enter__(self) -> Listener"))
      .def(
          "__exit__", [](Listener& self, nb::args) { self.Close(); },
          nb::sig("def __exit__(self, *exception: object) -> None"));
}

}  // namespace

void DefineExchange(nb::module_& m) {
  DefineMessage(m);
  DefineChannel(m);
  DefineListener(m);
  nb::class_<SharedMemory>(m, "SharedMemory",
                           "Arrays in memory that a channel hands to another process without a copy.\n\n"
                           "    >>> import tensorcask as tc\n"
                           "    >>> memory = tc.SharedMemory()\n"
                           "    >>> batch = memory.zeros((64, 1024), 'float32')\n"
                           "    >>> batch[0, :3] = [1, 2, 3]        # then: channel.send({'batch': batch})\n\n"
                           "The system frees an array when the last process has released it.")
      .def(
          "__init__",
          [](SharedMemory* self, uint64_t max_bytes, const nb::kwargs& others) {
            CheckKeywords<SharedMemory>(others);
            new (self) SharedMemory(max_bytes);
          },
          nb::arg("max_bytes") = 0, nb::arg("others"), nb::sig("def __init__(self, max_bytes: int = 0) -> None"),
          "``max_bytes`` is the limit on all arrays together; 0 is half of the machine's memory.")
      .def("zeros", &SharedMemory::Empty, nb::arg("shape"), nb::arg("dtype") = "float32",
           nb::sig("def zeros(self, shape: int | collections.abc.Sequence[int], dtype: object = 'float32') "
                   "-> numpy.ndarray"),
           "A new array of zeros. Raises MemoryError past the limit.")
      .def_prop_ro("total_bytes", &SharedMemory::total_bytes, "Of the arrays that exist, in whole pages.");
}

}  // namespace tensorcask::python
