// Stands in for Gloo's own header: see gloo/context.h.
#pragma once
