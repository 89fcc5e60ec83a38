#include "tensorcask/tools/peer_options.h"

#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tools/output/console.h"

namespace tensorcask::tools {
namespace {

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

}  // namespace

void AddSocketOptions(CLI::App& app, SocketFlags* flags, const char* what, double timeout_s) {
  app.add_option("--unix", flags->path, what)->type_name("SOCKET");
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

void AddListenOptions(CLI::App& app, ListenFlags* flags, const char* what) {
  app.add_option("--listen", flags->address, what)->type_name("ADDRESS");
  app.add_flag("--insecure", flags->insecure, "With --listen: without TLS also where other hosts reach it");
  app.add_option("--certificate", flags->certificate, "With --listen: TLS with this certificate (PEM)")
      ->type_name("FILE");
  app.add_option("--key", flags->key, "The key of the certificate (PEM)")->type_name("FILE");
  app.add_option("--client-ca", flags->client_authorities,
                 "Only clients whose certificate one of these authorities has signed (PEM)")
      ->type_name("FILE");
  app.add_option("--token-file", flags->token_file, "Only clients that show the token in this file; needs TLS")
      ->type_name("FILE");
}

absl::Status CheckPlace(const SocketFlags& socket, const ListenFlags& listen) {
  if (socket.path.empty() == listen.address.empty()) return Misuse("wanted either --unix SOCKET or --listen HOST:PORT");
  if (listen.address.empty()) {
    if (listen.insecure) return Misuse("--insecure is for --listen");
    if (!listen.certificate.empty() || !listen.key.empty()) return Misuse("--certificate and --key are for --listen");
  }
  if (listen.certificate.empty() != listen.key.empty()) return Misuse("TLS needs both --certificate and --key");
  if (listen.certificate.empty()) {
    if (!listen.client_authorities.empty()) return Misuse("--client-ca needs --certificate and --key");
    if (!listen.token_file.empty()) return Misuse("--token-file needs --certificate and --key");
  }
  return CheckSocketFolder(socket.path);
}

absl::Status CheckSocketFolder(const std::string& socket) {
  const size_t slash = socket.rfind('/');
  if (slash == std::string::npos || slash == 0) return absl::OkStatus();
  const std::string folder = socket.substr(0, slash);
  if (!absl::IsNotFound(DescribeFile(folder, FileSystem::Posix()).status())) return absl::OkStatus();
  return Misuse(absl::StrCat("--unix ", socket, ": there is no folder ", folder, " for the socket"));
}

}  // namespace tensorcask::tools
