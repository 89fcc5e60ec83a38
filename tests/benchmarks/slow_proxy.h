// A proxy for TCP on this machine that makes a server far away: each answer waits before its first byte, and each
// connection carries only so many bytes a second.
//
//   RunSlowProxy(9001, 9000, 0.020, 80e6);   // 127.0.0.1:9001 is that of port 9000, 20 ms and 80 MB/s away
//
// An answer begins with the first byte from the server after a byte of the client: requests that follow one another on
// a connection, as HTTP/1.1 without pipelining has them.

#ifndef TENSORCASK_TESTS_BENCHMARKS_SLOW_PROXY_H_
#define TENSORCASK_TESTS_BENCHMARKS_SLOW_PROXY_H_

namespace tensorcask::benchmarks {

// Serves until the process ends. Returns 1 if it cannot listen.
int RunSlowProxy(int port, int server_port, double delay_seconds, double bytes_per_second);

// A connection to 127.0.0.1:port, or -1.
int ConnectTo(int port);
// False if the connection is broken.
bool SendAll(int socket, const char* bytes, unsigned long count);

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_SLOW_PROXY_H_
