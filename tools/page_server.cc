#include "tensorcask/tools/page_server.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/random_bytes.h"

namespace tensorcask::tools {
namespace {

constexpr size_t kTokenBytes = 16;
constexpr int kHeaderBytes = 16 << 10;
constexpr int kSeconds = 10;  // between two bytes, and between two requests
constexpr timeval kTick = {0, 100000};

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* what) const {
    Free(what);
  }
};

// Takes the same time wherever the texts differ.
bool SameSecret(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (size_t i = 0; i < a.size(); ++i) different |= static_cast<unsigned char>(a[i] ^ b[i]);
  return different == 0;
}

class EventServer final : public PageServer {
 public:
  explicit EventServer(AnswerPage answer) : answer_(std::move(answer)) {}

  absl::Status Listen(uint16_t port) {
    unsigned char random[kTokenBytes];
    if (!internal::FillWithRandomBytes(random, sizeof(random))) {
      return absl::UnavailableError("the system gives no random bytes for the token of the address");
    }
    token_ = absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(random), sizeof(random)));
    base_.reset(event_base_new());
    if (base_ != nullptr) http_.reset(evhttp_new(base_.get()));
    if (http_ == nullptr) return absl::UnavailableError("the system gives no event loop");
    evhttp_set_allowed_methods(http_.get(), EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
    evhttp_set_max_headers_size(http_.get(), kHeaderBytes);
    evhttp_set_max_body_size(http_.get(), 0);
    evhttp_set_timeout(http_.get(), kSeconds);
    evhttp_set_gencb(
        http_.get(), [](evhttp_request* request, void* self) { static_cast<EventServer*>(self)->Answer(request); },
        this);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    // The server frees the listener.
    listener_ = evconnlistener_new_bind(base_.get(), nullptr, nullptr, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC,
                                        /*backlog=*/128, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    if (listener_ == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("127.0.0.1:", port, ": cannot listen"));
    if (evhttp_bind_listener(http_.get(), listener_) == nullptr) {
      evconnlistener_free(listener_);
      return absl::ResourceExhaustedError("no memory to listen");
    }
    evconnlistener_set_error_cb(listener_, [](evconnlistener* listener, void*) { evconnlistener_disable(listener); });
    socklen_t size = sizeof(address);
    if (getsockname(evconnlistener_get_fd(listener_), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      return absl::ErrnoToStatus(errno, "the port is not known");
    }
    port_ = absl::StrCat(":", ntohs(address.sin_port));
    url_ = absl::StrCat("http://127.0.0.1", port_, "/?token=", token_);
    return absl::OkStatus();
  }

  const std::string& url() const override { return url_; }

  void Run(absl::FunctionRef<bool()> go_on) override {
    const auto tick = [](evutil_socket_t, short, void* base) { event_base_loopbreak(static_cast<event_base*>(base)); };
    const std::unique_ptr<event, Freer<event_free>> timer(event_new(base_.get(), -1, EV_PERSIST, tick, base_.get()));
    if (timer == nullptr || event_add(timer.get(), &kTick) != 0) return;
    while (go_on()) {
      event_base_dispatch(base_.get());
      evconnlistener_enable(listener_);  // after an error: descriptors may be free again
    }
  }

 private:
  bool IsOurs(const char* text, absl::string_view scheme) const {
    return text != nullptr && (absl::string_view(text) == absl::StrCat(scheme, "127.0.0.1", port_) ||
                               absl::string_view(text) == absl::StrCat(scheme, "localhost", port_));
  }

  // Whether another site sent the request. The browser of the user comes from a file, which counts as another site. So
  // any site may open the page itself, if its request has the token.
  static bool IsOfOtherSite(const evkeyvalq* headers, const std::string& path) {
    const auto header = [&](const char* name) -> absl::string_view {
      const char* const text = evhttp_find_header(headers, name);
      return text == nullptr ? "" : text;
    };
    const absl::string_view site = header("Sec-Fetch-Site");
    if (site.empty() || site == "same-origin" || site == "none") return false;
    return path != "/" || header("Sec-Fetch-Mode") != "navigate" || header("Sec-Fetch-Dest") != "document";
  }

  // Why a request is refused; code 200: it is not.
  PageAnswer Check(evhttp_request* request, const std::string& path,
                   const std::map<std::string, std::string>& query) const {
    const evkeyvalq* const headers = evhttp_request_get_input_headers(request);
    const char* const origin = evhttp_find_header(headers, "Origin");
    if (!IsOurs(evhttp_find_header(headers, "Host"), "")) return {421, "text/plain", "another host is meant\n"};
    if (origin != nullptr && !IsOurs(origin, "http://")) return {403, "text/plain", "asked by another site\n"};
    if (IsOfOtherSite(headers, path)) return {403, "text/plain", "asked by another site\n"};
    const auto token = query.find("token");
    if (token == query.end() || !SameSecret(token->second, token_)) {
      return {403, "text/plain", "wrong token: open the address that tensorcask browse printed\n"};
    }
    return {};
  }

  void Answer(evhttp_request* request) {
    std::map<std::string, std::string> query;
    std::string path = "/";
    const evhttp_uri* const uri = evhttp_request_get_evhttp_uri(request);
    if (const char* const text = uri == nullptr ? nullptr : evhttp_uri_get_path(uri)) path = text;
    evkeyvalq pairs = {};
    const char* const text = uri == nullptr ? nullptr : evhttp_uri_get_query(uri);
    if (text != nullptr && evhttp_parse_query_str(text, &pairs) == 0) {
      for (const evkeyval* one = pairs.tqh_first; one != nullptr; one = one->next.tqe_next)
        query[one->key] = one->value;
      evhttp_clear_headers(&pairs);
    }
    PageAnswer answer = Check(request, path, query);
    if (answer.code == 200) answer = answer_(path, query);
    evkeyvalq* const headers = evhttp_request_get_output_headers(request);
    const std::pair<const char*, const char*> always[] = {
        {"Content-Type", answer.type.c_str()},
        {"Cache-Control", "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Content-Security-Policy", "frame-ancestors 'none'"},
    };
    for (const auto& [key, value] : always) evhttp_add_header(headers, key, value);
    evbuffer* const body = evhttp_request_get_output_buffer(request);
    evbuffer_add(body, answer.body.data(), answer.body.size());
    evhttp_send_reply(request, answer.code, nullptr, nullptr);
  }

  const AnswerPage answer_;
  std::string token_;
  std::string port_;  // ":40123"
  std::string url_;
  std::unique_ptr<event_base, Freer<event_base_free>> base_;
  std::unique_ptr<evhttp, Freer<evhttp_free>> http_;
  evconnlistener* listener_ = nullptr;  // of http_
};

}  // namespace

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Start(uint16_t port, AnswerPage answer) {
  auto server = std::make_unique<EventServer>(std::move(answer));
  const absl::Status status = server->Listen(port);
  if (!status.ok()) return status;
  return server;
}

}  // namespace tensorcask::tools
