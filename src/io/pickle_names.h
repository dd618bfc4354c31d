// The names a pickle of tensors may use, and what calling them would make. Nothing else can be called:
//   collections.OrderedDict()                                      an empty dict
//   torch._utils._rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks[, metadata])
//   torch._utils._rebuild_parameter(tensor, requires_grad, hooks)  the tensor
//   torch.FloatStorage and its like                                only inside a storage's persistent id
#pragma once
#include <string_view>
#include <vector>

#include "io/pickle.h"

namespace openwork {

class PickleNames {
 public:
  // What is made goes into `document`, which must outlive this.
  PickleNames(PickleDocument& document, std::string_view origin) : document_(document), origin_(origin) {}

  // The name as a value (PickleKind::kGlobal); any other name is refused.
  PickleValue find(std::string_view module, std::string_view name) const;

  // `arguments` and `id` are tuples.
  PickleValue call(PickleValue callable, PickleValue arguments);
  PickleValue make_storage(PickleValue id);  // ("storage", type, key, location, count)

 private:
  PickleValue rebuild_tensor(const std::vector<PickleValue>& arguments);
  std::vector<int64_t> integers_of(PickleValue tuple) const;
  bool is_text(PickleValue value, std::string_view wanted) const;
  [[noreturn]] void refuse(std::string_view what) const;

  PickleDocument& document_;
  std::string_view origin_;
};

}  // namespace openwork
