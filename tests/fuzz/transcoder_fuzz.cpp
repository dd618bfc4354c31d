// Any bytes as the config.yaml of a transcoder folder: what was read is read again from what is written of it, or one
// line.
#include "fuzz/fuzz_input.h"
#include "transcode/transcoder_header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace openwork;
  return expect_error_at_worst([&] {
    const TranscoderHeader read = read_transcoder_header(as_text(data, size), "input");
    const TranscoderHeader again = read_transcoder_header(write_transcoder_header(read), "again");
    if (again.cross_layer != read.cross_layer || again.reads_residual != read.reads_residual) std::abort();
  });
}
