// The hub's address and token out of the environment, and its refusals in words.
#pragma once
#include <string>

#include "io/http.h"

namespace openwork {

// HF_ENDPOINT without a closing slash, else the public hub; fails where it is no web address.
std::string hub_endpoint();

// HF_TOKEN, or ""; fails where it could not be part of a header.
std::string hub_token();

// Fails where HF_HUB_OFFLINE forbids the network.
void refuse_when_offline();

// Fails with what an answer other than 200 means for `what` (a model or one of its files), and what to do.
[[noreturn]] void explain_refusal(const HttpResponse& response, const std::string& what,
                                  const std::string& revision);

}  // namespace openwork
