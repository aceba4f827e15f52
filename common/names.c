#include "common/names.h"
