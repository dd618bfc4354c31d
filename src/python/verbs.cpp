// The program's verbs for Python (cli/host.h), figures as objects, and the host's side of long work: progress is
// told to a Python function, and a Ctrl-C that Python has noted ends it.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <csignal>

#include "cli/host.h"
#include "python/bindings.h"
#include "python/model.h"

namespace nb = nanobind;

namespace openwork {
namespace {

nb::handle progress_function;  // called (name, unit, detail, done, total, finished)

void tell_progress(const ProgressState& state) {
  const nb::gil_scoped_acquire gil;
  if (!state.finished && PyErr_CheckSignals() != 0) throw nb::python_error();
  const auto text = [](std::string_view view) { return nb::str(view.data(), view.size()); };
  progress_function(text(state.name), text(state.unit), text(state.detail), state.done, state.total,
                    state.finished);
}

// Whether Python has noted a Ctrl-C; the exception itself is raised when the run has ended in order.
int ask_to_stop() {
  const nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0) return 0;
  PyErr_Clear();
  return SIGINT;
}

void enter(const std::string& models, nb::object progress) {
  progress_function = progress.release();
  enter_host({models, tell_progress, ask_to_stop});
}

std::pair<std::string, std::vector<draw::Figure>> call(const std::vector<std::string>& arguments,
                                                       const std::vector<const CoreModel*>& models) {
  std::vector<std::pair<std::string, const Transformer*>> lent;
  for (const CoreModel* model : models) lent.emplace_back(model->name(), &model->transformer());
  const nb::gil_scoped_release computing;
  VerbResult result = call_verb(arguments, lent);
  return {json_text(result.json), std::move(result.figures)};
}

nb::bytes render(const draw::Figure& figure, const std::string& ending, double dpi) {
  std::string bytes;
  {
    const nb::gil_scoped_release painting;
    bytes = draw::render_figure(figure, draw::format_of("figure." + ending, "figure"), dpi);
  }
  return nb::bytes(bytes.data(), bytes.size());
}

}  // namespace

void bind_verbs(nb::module_& module) {
  nb::class_<draw::Figure>(module, "Figure", "A figure that is painted when it is asked for")
      .def_ro("width", &draw::Figure::width, "points")
      .def_ro("height", &draw::Figure::height, "points")
      .def("render", render, nb::arg("ending"), nb::arg("dpi") = draw::kDefaultDpi,
           "The bytes of an svg, pdf or png file");
  module.def("enter", enter, nb::arg("models"), nb::arg("progress"),
             "Says where built-in models are and who is told of progress; once");
  module.def("call", call, nb::arg("arguments"), nb::arg("models"),
             "Runs a verb of the program; its JSON as text, and its figures");
  module.attr("FIGURE_IN_MEMORY") = kFigureInMemory;
}

}  // namespace openwork
