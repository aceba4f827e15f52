#include "common/ini.h"
