// openwork._core: the C++ core for the Python package. The program's errors become Python exceptions here.
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "base/error.h"
#include "python/bindings.h"
#include "shell/common.h"

namespace nb = nanobind;

namespace openwork {
namespace {

nb::handle error_type, input_error_type;  // of the package's errors.py, which outlives the module

void raise_in_python(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const bool input = error.kind() == Error::Kind::kInput;
    PyErr_SetString((input ? input_error_type : error_type).ptr(), error.what());
  } catch (const Interrupted&) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    PyErr_SetString(
        error_type.ptr(),
        fmt::format("{}; torch; check shapes, memory and device", text.substr(0, text.find('\n'))).c_str());
  } catch (const nlohmann::json::exception& error) {
    PyErr_SetString(
        input_error_type.ptr(),
        fmt::format("a JSON value is not of the kind wanted; {}; correct the file", error.what()).c_str());
  }
}

}  // namespace

void bind_errors(nb::module_& module) {
  nb::object errors = nb::module_::import_("openwork.errors");
  error_type = nb::object(errors.attr("Error")).release();
  input_error_type = nb::object(errors.attr("InputError")).release();
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) { raise_in_python(thrown); });
  module.doc() = "openwork's C++ core; use it through the package openwork";
}

}  // namespace openwork

NB_MODULE(_core, module) {
  nb::set_leak_warnings(false);  // a script that ends while it holds a model has lost nothing
  openwork::bind_errors(module);
  openwork::bind_model(module);
  openwork::bind_verbs(module);
}
