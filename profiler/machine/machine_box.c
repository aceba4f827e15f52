#include "profiler/machine/machine_box.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"

#define LINE_BYTES 128

/* Reads the first line of root/path...; "" if it cannot be read. */
__attribute__((format(printf, 3, 4))) static void read_line(char line[LINE_BYTES], const char *root,
                                                            const char *format, ...)
{
    va_list args;
    va_start(args, format);
    DL_AUTOFREE char *tail = dl_vformat(format, args);
    va_end(args);
    DL_AUTOFREE char *path = dl_format("%s/%s", root, tail);
    FILE *file = fopen(path, "re");
    line[0] = '\0';
    /* Files of ports without a carrier can be opened, but not read. */
    if (file != NULL && fgets(line, LINE_BYTES, file) == NULL) line[0] = '\0';
    if (file != NULL) fclose(file);
    line[strcspn(line, "\n")] = '\0';
}

static bool is_there(const char *root, const char *folder, const char *name, const char *file)
{
    DL_AUTOFREE char *path = dl_format("%s/%s/%s%s", root, folder, name, file);
    return access(path, F_OK) == 0;
}

/* Returns the number at the beginning of a PCI device's file, such as "16.0 GT/s PCIe"; 0 if
 * none. */
static double pci_number(const char *root, const char *bus_id, const char *file)
{
    char line[LINE_BYTES];
    read_line(line, root, "bus/pci/devices/%s/%s", bus_id, file);
    const double number = strtod(line, NULL);
    return number > 0 ? number : 0;
}

static double lesser(double a, double b)
{
    return b > 0 && (a <= 0 || b < a) ? b : a;
}

/* Transfers per second and lane, and the payload fraction after line code and framing: 8b/10b,
 * 128b/130b, FLITs with 236 of 256 bytes (PCI Express Base Specification 6.0, physical layer). */
static const struct {
    double transfers_per_s, payload;
} generations[] = {
    {2.5e9, 8.0 / 10},   {5e9, 8.0 / 10},     {8e9, 128.0 / 130},
    {16e9, 128.0 / 130}, {32e9, 128.0 / 130}, {64e9, 236.0 / 256},
};

#define GENERATION_COUNT ((int)DL_LENGTH(generations))

void dl_box_free(dl_box *box)
{
    free(box->switches);
    free(box->gpus);
    free(box->nics);
    free(box->nvlinks);
    *box = (dl_box){0};
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

dl_pci_link dl_sysfs_pci_link(const char *root, const char *bus_id, const char *port)
{
    double speed = pci_number(root, bus_id, "max_link_speed");
    double lanes = pci_number(root, bus_id, "max_link_width");
    if (port != NULL && port[0] != '\0') {
        speed = lesser(speed, pci_number(root, port, "max_link_speed"));
        lanes = lesser(lanes, pci_number(root, port, "max_link_width"));
    }
    lanes = lesser(lanes, pci_number(root, bus_id, "current_link_width"));
    /* An unknown width is written as 255. */
    dl_pci_link link = {.transfers_per_s = speed * 1e9, .lanes = lanes <= 32 ? (int)lanes : 0};
    dl_pci_link_set_wire(&link);
    return link;
}

double dl_sysfs_net_rate(const char *root, const char *name)
{
    char line[LINE_BYTES];
    read_line(line, root, "class/net/%s/speed", name); /* Mb/s, -1 = unknown */
    const double speed = strtod(line, NULL);
    return speed > 0 ? speed * 1e6 / 8 : 0;
}

double dl_sysfs_infiniband_rate(const char *root, const char *name)
{
    char line[LINE_BYTES];
    read_line(line, root, "class/infiniband/%s/ports/1/state", name); /* "4: ACTIVE" */
    if (strstr(line, "ACTIVE") == NULL) return 0;
    read_line(line, root, "class/infiniband/%s/ports/1/rate", name); /* "200 Gb/sec (4X HDR)" */
    const double rate = strtod(line, NULL);
    return rate > 0 ? rate * 1e9 / 8 : 0;
}

bool dl_sysfs_is_infiniband(const char *root, const char *name)
{
    char line[LINE_BYTES];
    read_line(line, root, "class/infiniband/%s/ports/1/link_layer", name);
    return strcmp(line, "InfiniBand") == 0;
}

bool dl_sysfs_is_virtual_function(const char *root, const char *bus_id)
{
    return is_there(root, "bus/pci/devices", bus_id, "/physfn");
}

bool dl_sysfs_has_module(const char *root, const char *name)
{
    return is_there(root, "module", name, "");
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

bool dl_box_has_nvlink(const dl_box *box, int a, int b)
{
    for (int i = 0; i < box->nvlink_count; i++)
        if (box->nvlinks[i].a == a && box->nvlinks[i].b == b) return true;
    return box->nvswitch_lanes > 0;
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
