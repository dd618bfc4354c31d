// PyTorch's .pth and .bin files, as torch.save writes them since 1.6: a zip of ARCHIVE/data.pkl (a pickle of
// names, shapes and strides) and ARCHIVE/data/KEY (the storages' bytes). Only tensors are read: see pickle.h.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "io/tensor_listing.h"

namespace openwork {

// Lists the tensors of a whole file's bytes. Nested dicts and lists flatten to names with dots; a file of
// {"state_dict" | "model_state_dict" | "model": {...}} is that dict; numbers, strings and None beside tensors
// are passed over. Tensors may share storages and have strides; entries keep both. Bad input: anything that
// pickle.h refuses, compressed members, big-endian files, tensors that reach outside their storage or hold
// more values than it does.
TensorListing parse_pth(std::span<const std::byte> file, std::string_view origin);

}  // namespace openwork
