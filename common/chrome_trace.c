#include "common/chrome_trace.h"
