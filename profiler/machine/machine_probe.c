#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "profiler/machine/machine_box.h"

#define VENDOR_NVIDIA 0x10de
#define CLASS_NETWORK 0x02 /* upper byte of the class (PCI Code and ID Assignment) */
#define CLASS_DISPLAY 0x03
#define CHAIN_MAX (2 * DL_MACHINE_MAX_DEPTH + 2) /* maximum bridges examined above a device */

/* State of the probe. */
typedef struct probe {
    dl_box *box;
    hwloc_topology_t topology;
    const char *sysfs;
} probe;

static bool is_pci_bridge(const struct hwloc_obj *obj)
{
    return obj != NULL && obj->type == HWLOC_OBJ_BRIDGE &&
           obj->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
}

static const struct hwloc_pcidev_attr_s *pci_of(const struct hwloc_obj *obj)
{
    return obj->type == HWLOC_OBJ_BRIDGE ? &obj->attr->bridge.upstream.pci : &obj->attr->pcidev;
}

static void set_bus_id(char bus_id[DL_BUS_ID_BYTES], const struct hwloc_obj *obj)
{
    const struct hwloc_pcidev_attr_s *pci = pci_of(obj);
    snprintf(bus_id, DL_BUS_ID_BYTES, "%04x:%02x:%02x.%x", pci->domain & 0xffffU, pci->bus,
             pci->dev & 0x1fU, pci->func & 0x7U);
}

/* Returns the link between a device or an upstream port and the port above it. */
static dl_pci_link link_of(const probe *p, const struct hwloc_obj *obj)
{
    dl_pci_link link = {0};
    if (p->sysfs != NULL) {
        char bus_id[DL_BUS_ID_BYTES], port[DL_BUS_ID_BYTES] = "";
        set_bus_id(bus_id, obj);
        if (is_pci_bridge(obj->parent)) set_bus_id(port, obj->parent);
        link = dl_sysfs_pci_link(p->sysfs, bus_id, port);
    }
    if (link.wire_bytes_per_s <= 0) link.wire_bytes_per_s = pci_of(obj)->linkspeed * 1e9;
    return link;
}

/* Returns the only socket whose cores are near the device; 0 if there is no such socket. */
static int socket_of(const probe *p, hwloc_obj_t device)
{
    hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(p->topology, device);
    int found = -1;
    for (int i = 0; i < p->box->sockets && near->cpuset != NULL; i++) {
        hwloc_obj_t package = hwloc_get_obj_by_type(p->topology, HWLOC_OBJ_PACKAGE, (unsigned)i);
        if (package == NULL || !hwloc_bitmap_intersects(package->cpuset, near->cpuset)) continue;
        found = found < 0 ? i : p->box->sockets;
    }
    if (found >= 0 && found < p->box->sockets) return found;
    if (p->box->sockets > 1) p->box->places_known = false;
    return 0;
}

/* Returns the place of the switch with this upstream port, adding the switch if it is new. */
static int switch_place(const probe *p, const struct hwloc_obj *upstream, int parent)
{
    dl_box *box = p->box;
    dl_box_switch made = {.parent = parent};
    set_bus_id(made.bus_id, upstream);
    for (int i = 0; i < box->switch_count; i++) {
        if (strcmp(box->switches[i].bus_id, made.bus_id) == 0) return box->sockets + i;
    }
    made.link = link_of(p, upstream);
    DL_APPEND(box->switches, box->switch_count, "PCIe switches") = made;
    return box->sockets + box->switch_count - 1;
}

/* Returns the place above the device. From the host bridge down, every second bridge is the
 * upstream port of a switch. */
static int parent_place(const probe *p, hwloc_obj_t device)
{
    const struct hwloc_obj *chain[CHAIN_MAX];
    int length = 0;
    for (hwloc_obj_t above = device->parent; is_pci_bridge(above) && length < CHAIN_MAX;
         above = above->parent)
        chain[length++] = above;
    int place = socket_of(p, device);
    for (int i = length - 2; i >= 0; i -= 2)
        place = switch_place(p, chain[i], place);
    return place;
}

static void add_gpu(const probe *p, hwloc_obj_t device)
{
    dl_box *box = p->box;
    dl_box_gpu gpu = {.device_id = device->attr->pcidev.device_id,
                      .parent = parent_place(p, device),
                      .link = link_of(p, device)};
    set_bus_id(gpu.bus_id, device);
    DL_APPEND(box->gpus, box->gpu_count, "GPUs") = gpu;
}

static bool is_port(const struct hwloc_obj *obj)
{
    return obj->type == HWLOC_OBJ_OS_DEVICE &&
           (obj->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK ||
            obj->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS);
}

/* Sets the NIC's name and rate to those of its fastest port. */
static void fill_port(const probe *p, const struct hwloc_obj *os_device, dl_box_nic *nic)
{
    const bool fabric = os_device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
    double rate = 0;
    if (p->sysfs != NULL) {
        rate = fabric ? dl_sysfs_infiniband_rate(p->sysfs, os_device->name)
                      : dl_sysfs_net_rate(p->sysfs, os_device->name);
    }
    if (nic->name[0] != '\0' && rate <= nic->port_bytes_per_s) return;
    snprintf(nic->name, sizeof nic->name, "%s", os_device->name);
    nic->port_bytes_per_s = rate;
    nic->infiniband =
        fabric && p->sysfs != NULL && dl_sysfs_is_infiniband(p->sysfs, os_device->name);
}

static void add_nic(const probe *p, hwloc_obj_t device)
{
    dl_box *box = p->box;
    dl_box_nic nic = {0};
    set_bus_id(nic.bus_id, device);
    if (p->sysfs != NULL && dl_sysfs_is_virtual_function(p->sysfs, nic.bus_id)) return;
    for (hwloc_obj_t child = device->io_first_child; child != NULL; child = child->next_sibling) {
        if (is_port(child)) fill_port(p, child, &nic);
    }
    if (nic.name[0] == '\0') return;
    nic.parent = parent_place(p, device);
    nic.link = link_of(p, device);
    DL_APPEND(box->nics, box->nic_count, "NICs") = nic;
}

DL_ORDER(by_bus_id, dl_box_gpu, DL_BY_TEXT(bus_id));

static void probe_devices(const probe *p)
{
    for (hwloc_obj_t device = hwloc_get_next_pcidev(p->topology, NULL); device != NULL;
         device = hwloc_get_next_pcidev(p->topology, device)) {
        const struct hwloc_pcidev_attr_s *pci = &device->attr->pcidev;
        if (pci->class_id >> 8 == CLASS_DISPLAY && pci->vendor_id == VENDOR_NVIDIA) {
            add_gpu(p, device);
        } else if (pci->class_id >> 8 == CLASS_NETWORK) {
            add_nic(p, device);
        }
    }
    if (p->box->gpu_count > 0) {
        qsort(p->box->gpus, (size_t)p->box->gpu_count, sizeof *p->box->gpus, by_bus_id);
    }
}

static int count_of(hwloc_topology_t topology, hwloc_obj_type_t type, int at_least)
{
    const int count = hwloc_get_nbobjs_by_type(topology, type);
    return count > at_least ? count : at_least;
}

static void copy_info(char text[DL_BOX_NAME_BYTES], hwloc_obj_t obj, const char *key)
{
    const char *found = obj != NULL ? hwloc_obj_get_info_by_name(obj, key) : NULL;
    if (found != NULL && text[0] == '\0') snprintf(text, DL_BOX_NAME_BYTES, "%s", found);
}

/* Returns the larger of hwloc's total and the kernel's, as each can be too low: hwloc's in a
 * virtual machine (less than a fifth was seen), the kernel's by its own memory. For another system
 * only hwloc's total exists. */
static double memory_of(hwloc_topology_t topology)
{
    const double nodes = (double)hwloc_get_root_obj(topology)->total_memory;
    if (!hwloc_topology_is_thissystem(topology)) return nodes;
    const double whole = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return whole > nodes ? whole : nodes;
}

static void probe_host(const probe *p)
{
    dl_box *box = p->box;
    hwloc_topology_t topology = p->topology;
    hwloc_obj_t root = hwloc_get_root_obj(topology);
    box->sockets = count_of(topology, HWLOC_OBJ_PACKAGE, 1);
    box->cores = count_of(topology, HWLOC_OBJ_CORE, 0);
    if (box->cores == 0) box->cores = count_of(topology, HWLOC_OBJ_PU, 1);
    box->numa_count = count_of(topology, HWLOC_OBJ_NUMANODE, 1);
    box->memory_bytes = memory_of(topology);
    for (int level = HWLOC_OBJ_L3CACHE; level >= HWLOC_OBJ_L2CACHE && box->cache_bytes <= 0;
         level--) {
        for (hwloc_obj_t cache = NULL;
             (cache = hwloc_get_next_obj_by_type(topology, (hwloc_obj_type_t)level, cache));)
            box->cache_bytes += (double)cache->attr->cache.size;
    }
    copy_info(box->name, root, "DMIProductName");
    copy_info(box->name, root, "HostName");
    copy_info(box->processor, hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0), "CPUModel");
}

void dl_probe_topology(dl_box *box, struct hwloc_topology *topology, const char *sysfs)
{
    const probe p = {box, topology, sysfs};
    probe_host(&p);
    box->places_known = true;
    probe_devices(&p);
    box->peer_memory = sysfs != NULL && dl_sysfs_has_module(sysfs, "nvidia_peermem");
}

dl_status dl_probe_machine(dl_box *box, dl_error *err)
{
    hwloc_topology_t topology = NULL;
    if (hwloc_topology_init(&topology) != 0) {
        return dl_error_set(err, DL_ERR_SYSTEM, "hwloc cannot start");
    }
    dl_status status = DL_OK;
    if (hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) != 0 ||
        hwloc_topology_load(topology) != 0) {
        status = dl_error_set(err, DL_ERR_SYSTEM, "hwloc cannot examine this machine");
    } else {
        dl_probe_topology(box, topology, "/sys");
    }
    hwloc_topology_destroy(topology);
    return status;
}
