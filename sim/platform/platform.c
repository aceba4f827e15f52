#include "sim/platform/platform.h"

#include <stdio.h>

void dl_usage_note(dl_usage *usage, const char *name, double frac)
{
    if (frac <= usage->busiest_frac) return;
    snprintf(usage->busiest, sizeof usage->busiest, "%s", name);
    usage->busiest_frac = frac;
}
