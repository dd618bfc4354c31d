// Stands in for Gloo's own header: see gloo/context.h.
#pragma once

namespace gloo::transport {
class Device;
class UnboundBuffer;
}  // namespace gloo::transport
