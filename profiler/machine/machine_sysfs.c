#include "profiler/machine/machine_sysfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"

#define LINE_BYTES 128

/* The first line of root/path..., "" if it cannot be read. */
__attribute__((format(printf, 3, 4))) static void read_line(char line[LINE_BYTES], const char *root,
                                                            const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *tail = dl_vformat(format, args);
    va_end(args);
    char *path = dl_format("%s/%s", root, tail);
    FILE *file = fopen(path, "re");
    line[0] = '\0';
    /* Files of ports without a carrier can be opened, but not read. */
    if (file != NULL && fgets(line, LINE_BYTES, file) == NULL) line[0] = '\0';
    if (file != NULL) fclose(file);
    line[strcspn(line, "\n")] = '\0';
    free(path);
    free(tail);
}

static bool is_there(const char *root, const char *folder, const char *name, const char *file)
{
    char *path = dl_format("%s/%s/%s%s", root, folder, name, file);
    const bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

/* The number at the beginning of a file of a PCI device, such as "16.0 GT/s PCIe"; 0 if none. */
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

dl_pci_link dl_sysfs_pci_link(const char *root, const char *bus_id, const char *port)
{
    double speed = pci_number(root, bus_id, "max_link_speed");
    double lanes = pci_number(root, bus_id, "max_link_width");
    if (port != NULL && port[0] != '\0') {
        speed = lesser(speed, pci_number(root, port, "max_link_speed"));
        lanes = lesser(lanes, pci_number(root, port, "max_link_width"));
    }
    lanes = lesser(lanes, pci_number(root, bus_id, "current_link_width"));
    /* A width that is not known is written as 255. */
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
