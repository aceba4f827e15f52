#include "common/options.h"
