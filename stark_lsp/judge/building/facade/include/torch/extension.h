#pragma once
#include "../stark_facade.h"
#if !defined(__CUDACC__) || defined(STARK_NEEDS_PYTHON)
#include "../stark_facade_python.h"
#endif
