#pragma once
#include "../stark_facade.h"
