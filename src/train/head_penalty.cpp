#include "train/head_penalty.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

namespace openwork {
namespace {

constexpr double kSmall = 1e-6;  // keeps the root's slope finite at a head that is all but closed

}  // namespace

HeadForm parse_head_form(const std::string& name, const std::string& where) {
  if (name == "sqrt") return HeadForm::kSqrt;
  if (name == "log") return HeadForm::kLog;
  fail_input(fmt::format("unknown form '{}'", printable(name, 40)), where, "use sqrt or log");
}

const char* head_form_name(HeadForm form) {
  return form == HeadForm::kSqrt ? "sqrt" : "log";
}

Tensor head_cost(const Tensor& penalty, HeadForm form, double knee) {
  if (form == HeadForm::kSqrt) return (penalty + kSmall).sqrt();
  return (penalty / knee).log1p() / std::log1p(1 / knee);
}

Tensor head_slope(const Tensor& penalty, HeadForm form, double knee) {
  if (form == HeadForm::kSqrt) return 0.5 * (penalty + kSmall).rsqrt();
  return ((penalty + knee) * std::log1p(1 / knee)).reciprocal();
}

}  // namespace openwork
