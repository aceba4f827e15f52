#include "trace/dlt.h"
