#include "profiler/machine/machine_box.h"

#include <hwloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/doubles/sysfs_tree.h"

#define NEAR(a, b) assert_float_equal((float)((a) / (b)), 1.0F, 1e-4F)
#define PCIE3_X16 15.753846e9

static hwloc_topology_t begin(void)
{
    hwloc_topology_t topology = NULL;
    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL), 0);
    return topology;
}

static dl_box probe_fixture(const char *file, const char *sysfs)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.xml", DL_FIXTURES, file);
    hwloc_topology_t topology = begin();
    assert_int_equal(hwloc_topology_set_xml(topology, path), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    dl_box box = {0};
    dl_probe_topology(&box, topology, sysfs);
    hwloc_topology_destroy(topology);
    return box;
}

/* The fixture: two sockets, each with two switches with two GPUs and a NIC; on socket 0 also a
 * switch with a disk and a display controller that is not NVIDIA's, which are left out. */
static void a_dgx_is_found(void **state DL_UNUSED)
{
    DL_SCOPED(dl_box) box = probe_fixture("dgx", NULL);
    assert_string_equal(box.name, "DGX-1 like box; made by hand");
    assert_contains(box.processor, "E5-2698");
    assert_int_equal(box.sockets, 2);
    assert_int_equal(box.cores, 4);
    assert_int_equal(box.numa_count, 2);
    assert_true(box.memory_bytes == 2 * 256 * 0x1p30);
    assert_true(box.cache_bytes == 2 * 32 * 0x1p20);
    assert_true(box.places_known);
    assert_int_equal(box.switch_count, 4);
    assert_int_equal(box.gpu_count, 8);
    assert_int_equal(box.nic_count, 4);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(box.gpus[i].parent, 2 + i / 2);
        assert_int_equal(dl_box_socket(&box, box.gpus[i].parent), i / 4);
        assert_int_equal(box.gpus[i].device_id, 0x1db1);
        NEAR(box.gpus[i].link.wire_bytes_per_s, PCIE3_X16);
    }
    assert_string_equal(box.gpus[7].bus_id, "0000:74:00.0");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(box.switches[i].parent, i / 2);
        NEAR(box.switches[i].link.wire_bytes_per_s, PCIE3_X16);
        assert_int_equal(box.nics[i].parent, 2 + i);
        assert_true(box.nics[i].port_bytes_per_s <= 0);
    }
    assert_string_equal(box.switches[3].bus_id, "0000:71:00.0");
    assert_string_equal(box.nics[0].name, "ib0");
    assert_false(box.peer_memory);
}

/* Link rates in /sys take precedence over those of the topology; port rates exist only there. */
static void sysfs_tells_links_and_ports(void **state)
{
    (void)state;
    char *sysfs = sysfs_tree_make();
    sysfs_tree_put_link(sysfs, "0000:13:00.0", "16.0 GT/s PCIe", 16, 16);
    sysfs_tree_put_link(sysfs, "0000:12:00.0", "8.0 GT/s PCIe", 8, 8); /* the port above it */
    sysfs_tree_put(sysfs, "class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE");
    sysfs_tree_put(sysfs, "class/infiniband/mlx5_1/ports/1/rate", "100 Gb/sec (4X EDR)");
    sysfs_tree_put(sysfs, "class/infiniband/mlx5_1/ports/1/link_layer", "InfiniBand");
    sysfs_tree_put(sysfs, "bus/pci/devices/0000:75:00.0/physfn/vendor", "0x15b3");
    sysfs_tree_put(sysfs, "module/nvidia_peermem/refcnt", "0");
    DL_SCOPED(dl_box) box = probe_fixture("dgx", sysfs);
    assert_int_equal(box.gpus[0].link.lanes, 8);
    assert_int_equal(dl_pci_link_generation(&box.gpus[0].link), 3);
    NEAR(box.gpus[1].link.wire_bytes_per_s, PCIE3_X16); /* from the topology */
    assert_int_equal(box.nic_count, 3);                 /* without the virtual function */
    assert_string_equal(box.nics[1].name, "mlx5_1");
    assert_true(box.nics[1].infiniband);
    NEAR(box.nics[1].port_bytes_per_s, 12.5e9);
    assert_false(box.nics[0].infiniband);
    assert_true(box.peer_memory);
    sysfs_tree_free(sysfs);
}

/* The host bridge is near both sockets: all devices are put at socket 0, and places_known is
 * false. */
static void devices_near_no_socket_stand_at_the_first(void **state DL_UNUSED)
{
    char *sysfs = sysfs_tree_make();
    sysfs_tree_put(sysfs, "class/net/enp96s0/speed", "10000");
    DL_SCOPED(dl_box) box = probe_fixture("two_switches", sysfs);
    assert_false(box.places_known);
    assert_int_equal(box.switch_count, 2);
    assert_int_equal(box.gpu_count, 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(box.gpus[i].parent, 2 + i / 4);
    assert_int_equal(dl_box_socket(&box, box.gpus[7].parent), 0);
    assert_int_equal(box.nic_count, 1);
    assert_int_equal(box.nics[0].parent, 0);
    assert_false(box.nics[0].infiniband);
    NEAR(box.nics[0].port_bytes_per_s, 1.25e9);
    sysfs_tree_free(sysfs);
}

static void a_machine_without_pci_has_no_devices(void **state DL_UNUSED)
{
    hwloc_topology_t topology = begin();
    assert_int_equal(
        hwloc_topology_set_synthetic(topology, "[numa(memory=1073741824)] l2:2(size=524288) pu:2"),
        0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    dl_box box = {0};
    dl_probe_topology(&box, topology, NULL);
    assert_int_equal(box.sockets, 1);
    assert_int_equal(box.cores, 4); /* the topology has no cores: hardware threads are counted */
    assert_true(box.memory_bytes == 0x1p30);
    assert_true(box.cache_bytes == 0x1p20);
    assert_true(box.places_known);
    assert_int_equal(box.gpu_count + box.nic_count + box.switch_count, 0);
    hwloc_topology_destroy(topology);
    dl_box_free(&box);
    dl_box_free(&box);
}

/* A node claims 1 MB: for this system the kernel's larger total is used, for another system the
 * claim. */
static void memory_is_what_the_system_has(void **state DL_UNUSED)
{
    const double whole = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    for (int here = 0; here < 2; here++) {
        hwloc_topology_t topology = begin();
        const unsigned long flag = here ? HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM : 0;
        assert_int_equal(hwloc_topology_set_flags(topology, flag), 0);
        assert_int_equal(hwloc_topology_set_synthetic(topology, "numa:1(memory=1048576) pu:1"), 0);
        assert_int_equal(hwloc_topology_load(topology), 0);
        DL_SCOPED(dl_box) box = {0};
        dl_probe_topology(&box, topology, NULL);
        NEAR(box.memory_bytes, here ? whole : 1048576);
        hwloc_topology_destroy(topology);
    }
}

static void this_machine_is_probed(void **state DL_UNUSED)
{
    DL_SCOPED(dl_box) box = {0};
    dl_error err = {0};
    if (dl_probe_machine(&box, &err) != DL_OK) fail_msg("%s", err.text);
    assert_true(box.sockets >= 1 && box.cores >= 1);
    assert_true(box.memory_bytes > 0);
    assert_true(box.name[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dgx_is_found),
        cmocka_unit_test(sysfs_tells_links_and_ports),
        cmocka_unit_test(devices_near_no_socket_stand_at_the_first),
        cmocka_unit_test(a_machine_without_pci_has_no_devices),
        cmocka_unit_test(memory_is_what_the_system_has),
        cmocka_unit_test(this_machine_is_probed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
