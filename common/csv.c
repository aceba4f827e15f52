#include "common/csv.h"
