#pragma once
#include "../../stark_facade_cuda.h"
