#include "common/cpu.h"
