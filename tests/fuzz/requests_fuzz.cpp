// Any bytes as a request to the server: the first chooses the route, the rest is the body. Read, or refused in one line;
// what was read has a key that reads back as the same request. Any bytes as a packed tensor likewise.
#include "serve/requests.h"

#include "fuzz/fuzz_input.h"
#include "serve/binary_tensor.h"
#include "serve/routes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace openwork;
  using namespace openwork::serve;
  const std::string_view text = as_text(data, size);
  expect_error_at_worst([&] { unpack_tensor(text); });
  if (text.empty()) return 0;
  const Route& route = kRoutes[data[0] % kRoutes.size()];
  const std::string_view name = request_name(route);
  if (!takes_requests(name)) return 0;
  return expect_error_at_worst([&] {
    const std::string key = parse_request(name, text.substr(1)).key;
    if (parse_request(name, std::string_view(key).substr(name.size() + 1)).key != key) std::abort();
  });
}
