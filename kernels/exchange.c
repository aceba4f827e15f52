#include "kernels/exchange.h"
