/* A machine's devices as reported by hwloc. hwloc itself crashes on some XML files, and dlprof
 * gives it none: so the input is a list of devices, from which a file is made that hwloc accepts.
 * The first byte is the number of packages; each device then has DEVICE_BYTES:
 *
 *   0 level below the host bridge, at most one more than that of the previous device
 *   1 bridge, PCI device or port of the previous PCI device
 *   2 class, 3 vendor (chosen among those that are distinguished, and others)
 *   4-5 bus and function, 6 link speed, 7 name */
#include <hwloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "profiler/machine/machine_box.h"
#include "tests/fuzz/fuzz_driver.h"

enum { DEVICE_BYTES = 8, DEVICES_MAX = 64, LEVELS_MAX = 24, PACKAGES_MAX = 3 };

/* The file being written. `ids` numbers the objects. */
typedef struct xml {
    FILE *out;
    int ids, open; /* `open`: bridges whose end tag is still to be written */
    bool device_open;
} xml;

static void write_processors(xml *x, int packages)
{
    const unsigned all = (1u << packages) - 1;
    fprintf(x->out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM "
            "\"hwloc2.dtd\">\n<topology version=\"2.0\">\n<object type=\"Machine\" os_index=\"0\" "
            "cpuset=\"0x%x\" complete_cpuset=\"0x%x\" nodeset=\"0x%x\" complete_nodeset=\"0x%x\" "
            "allowed_cpuset=\"0x%x\" allowed_nodeset=\"0x%x\" gp_index=\"%d\">\n",
            all, all, all, all, all, all, ++x->ids);
    for (int p = 0; p < packages; p++) {
        static const char *const types[] = {"Package", "NUMANode", "Core", "PU"};
        for (int t = 0; t < 4; t++) {
            fprintf(x->out,
                    "<object type=\"%s\" os_index=\"%d\" cpuset=\"0x%x\" complete_cpuset=\"0x%x\" "
                    "nodeset=\"0x%x\" complete_nodeset=\"0x%x\" gp_index=\"%d\"%s\n",
                    types[t], p, 1u << p, 1u << p, 1u << p, 1u << p, ++x->ids,
                    t == 1 || t == 3 ? "/>" : ">");
        }
        fprintf(x->out, "</object></object>\n");
    }
}

static void close_device(xml *x)
{
    if (x->device_open) fprintf(x->out, "</object>\n");
    x->device_open = false;
}

static void close_to(xml *x, int level)
{
    close_device(x);
    for (; x->open > level; x->open--)
        fprintf(x->out, "</object>\n");
}

static void write_pci(xml *x, const uint8_t *device, bool bridge)
{
    static const unsigned classes[] = {0x0300, 0x0302, 0x0200, 0x0207, 0x0108, 0x0380};
    static const unsigned vendors[] = {0x10de, 0x10de, 0x15b3, 0x1022};
    fprintf(x->out,
            " pci_busid=\"%04x:%02x:%02x.%x\" pci_type=\"%04x [%04x:%04x] [0000:0000] 00\" "
            "pci_link_speed=\"%g\">\n",
            device[5] >> 6, device[4], device[5] & 0x1fu, device[5] >> 5 & 1u,
            bridge ? 0x0604u : classes[device[2] % 6], vendors[device[3] % 4], 0x2000u + device[3],
            device[6] / 4.0);
}

static void write_device(xml *x, const uint8_t *device)
{
    const int kind = device[1] % 4;
    if (kind == 3 && x->device_open) {
        static const int ports[] = {HWLOC_OBJ_OSDEV_NETWORK, HWLOC_OBJ_OSDEV_OPENFABRICS,
                                    HWLOC_OBJ_OSDEV_GPU};
        fprintf(x->out,
                "<object type=\"OSDev\" gp_index=\"%d\" name=\"p%.*s%u\" osdev_type=\"%d\"/>\n",
                ++x->ids, device[7] / 4, "a_long_name_of_a_port_that_is_longer_than_others_are",
                device[7], ports[device[2] % 3]);
        return;
    }
    const int level = device[0] % LEVELS_MAX;
    close_to(x, level < x->open ? level : x->open);
    if (kind != 1) {
        fprintf(x->out, "<object type=\"PCIDev\" gp_index=\"%d\"", ++x->ids);
        write_pci(x, device, false);
        x->device_open = true;
    } else {
        fprintf(x->out,
                "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"1-1\" depth=\"%d\" "
                "bridge_pci=\"0000:[%02x-ff]\"",
                ++x->ids, x->open + 1, device[4]);
        write_pci(x, device, true);
        x->open++;
    }
}

/* Returns the complete file; free() it. */
static char *make_xml(const uint8_t *data, size_t bytes, size_t *xml_bytes)
{
    char *text = NULL;
    xml x = {.out = open_memstream(&text, xml_bytes)};
    DL_ASSERT(x.out != NULL, "no memory");
    write_processors(&x, 1 + data[0] % PACKAGES_MAX);
    fprintf(x.out,
            "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"0-1\" depth=\"0\" "
            "bridge_pci=\"0000:[00-ff]\">\n",
            ++x.ids);
    for (size_t i = 0; i < DEVICES_MAX && 1 + (i + 1) * DEVICE_BYTES <= bytes; i++)
        write_device(&x, data + 1 + i * DEVICE_BYTES);
    close_to(&x, 0);
    fprintf(x.out, "</object></object></topology>\n");
    const bool good = fclose(x.out) == 0;
    DL_ASSERT(good, "no memory");
    ++*xml_bytes; /* hwloc requires the NUL */
    return text;
}

/* Two packages; a switch with two GPUs and a NIC with two ports. */
static const uint8_t box[] = {1,                             /**/
                              0, 1, 0, 3, 0x10, 1, 63,  0,   /* root port */
                              1, 1, 0, 3, 0x11, 2, 63,  0,   /* upstream port */
                              2, 1, 0, 3, 0x12, 3, 63,  0,   /* downstream port */
                              3, 0, 1, 0, 0x13, 0, 63,  0,   /* GPU */
                              2, 1, 0, 3, 0x14, 4, 63,  0,   /* downstream port */
                              3, 0, 0, 1, 0x15, 0, 255, 0,   /* GPU */
                              0, 1, 0, 3, 0x20, 5, 16,  0,   /* root port */
                              1, 0, 3, 2, 0x21, 0, 16,  0,   /* NIC */
                              1, 3, 0, 0, 0,    0, 0,   0,   /* its ports */
                              1, 3, 1, 0, 0,    0, 0,   255, /* */
                              0, 0, 2, 3, 0x30, 0, 0,   0};  /* a NIC without ports */
static const uint8_t bare[] = {0};

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static const dl_fuzz_seed all[] = {{box, sizeof box}, {bare, sizeof bare}};
    *seeds = all;
    return sizeof all / sizeof all[0];
}

/* Checks the content that a machine file needs. */
static void check(const dl_box *b)
{
    const int places = b->sockets + b->switch_count;
    DL_ASSERT(b->sockets >= 1 && b->cores >= 1 && b->numa_count >= 1, "%d sockets, %d cores",
              b->sockets, b->cores);
    for (int i = 0; i < b->switch_count; i++) {
        DL_ASSERT(b->switches[i].parent >= 0 && b->switches[i].parent < b->sockets + i,
                  "switch %d below %d", i, b->switches[i].parent);
    }
    for (int i = 0; i < b->gpu_count; i++) {
        DL_ASSERT(b->gpus[i].parent >= 0 && b->gpus[i].parent < places, "GPU %d below %d", i,
                  b->gpus[i].parent);
        DL_ASSERT(isfinite(b->gpus[i].link.wire_bytes_per_s), "link of GPU %d", i);
    }
    for (int i = 0; i < b->nic_count; i++) {
        DL_ASSERT(b->nics[i].parent >= 0 && b->nics[i].parent < places, "NIC %d below %d", i,
                  b->nics[i].parent);
        DL_ASSERT(b->nics[i].name[0] != '\0', "NIC %d has no name", i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) return 0;
    size_t xml_bytes = 0;
    DL_AUTOFREE char *text = make_xml(data, bytes, &xml_bytes);
    hwloc_topology_t topology;
    const bool starts = hwloc_topology_init(&topology) == 0;
    DL_ASSERT(starts, "hwloc cannot start");
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    const bool loaded = hwloc_topology_set_xmlbuffer(topology, text, (int)xml_bytes) == 0 &&
                        hwloc_topology_load(topology) == 0;
    DL_ASSERT(loaded, "hwloc refuses\n%s", text);
    DL_SCOPED(dl_box) found = {0};
    dl_probe_topology(&found, topology, NULL);
    check(&found);
    hwloc_topology_destroy(topology);
    return 0;
}
