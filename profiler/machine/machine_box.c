#include "profiler/machine/machine_box.h"

#include <math.h>
#include <stdlib.h>

/* Transfers a second of a lane, and the part of the bits that line code and framing leave: 8b/10b,
 * 128b/130b, FLITs with 236 of 256 bytes (PCI Express Base Specification 6.0, physical layer). */
static const struct {
    double transfers_per_s, payload;
} generations[] = {
    {2.5e9, 8.0 / 10},   {5e9, 8.0 / 10},     {8e9, 128.0 / 130},
    {16e9, 128.0 / 130}, {32e9, 128.0 / 130}, {64e9, 236.0 / 256},
};
#define GENERATION_COUNT ((int)(sizeof generations / sizeof *generations))

void dl_box_free(dl_box *box)
{
    free(box->switches);
    free(box->gpus);
    free(box->nics);
    free(box->nvlinks);
    *box = (dl_box){0};
}

static int parent_of(const dl_box *box, int place)
{
    return box->switches[place - box->sockets].parent;
}

int dl_box_socket(const dl_box *box, int place)
{
    while (place >= box->sockets)
        place = parent_of(box, place);
    return place;
}

bool dl_box_share_switch(const dl_box *box, int place_a, int place_b)
{
    for (; place_a >= box->sockets; place_a = parent_of(box, place_a)) {
        for (int b = place_b; b >= box->sockets; b = parent_of(box, b)) {
            if (place_a == b) return true;
        }
    }
    return false;
}

int dl_pci_link_generation(const dl_pci_link *link)
{
    for (int i = 0; i < GENERATION_COUNT; i++) {
        if (fabs(link->transfers_per_s / generations[i].transfers_per_s - 1) < 0.01) return i + 1;
    }
    return 0;
}

void dl_pci_link_set_wire(dl_pci_link *link)
{
    const int generation = dl_pci_link_generation(link);
    link->wire_bytes_per_s = generation == 0 ? 0
                                             : link->lanes * link->transfers_per_s / 8 *
                                                   generations[generation - 1].payload;
}
