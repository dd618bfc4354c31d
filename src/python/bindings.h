// What the files of the Python bindings add to the module `openwork._core`. Nothing is computed here.
#pragma once
#include <nanobind/nanobind.h>

#include <nlohmann/json.hpp>
#include <string>

namespace openwork {

void bind_errors(nanobind::module_& module);  // Error, InputError, KeyboardInterrupt
void bind_model(
    nanobind::module_& module);  // Model: a transformer, its tokenizer, passes with named activations
void bind_verbs(nanobind::module_& module);  // call: a verb of the program; Figure; enter

// As Python's json reads it: bytes of a token need not be UTF-8 and are shown with replacement characters.
inline std::string json_text(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace openwork
