/* The complete path: topologies made by hand, the double of the driver, the file, dlsim's
 * reader. */
#include <hwloc.h>
#include <stdlib.h>

#include "common/machine.h"
#include "profiler/machine/machine_box.h"
#include "profiler/machine/machine_gpu.h"
#include "tests/check.h"
#include "tests/doubles/nvml_double.h"
#include "tests/doubles/sysfs_tree.h"

#define NEAR(a, b) assert_float_equal((float)((a) / (b)), 1.0F, 1e-3F)

static dl_box probe_fixture(const char *file, const char *sysfs)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.xml", DL_FIXTURES, file);
    hwloc_topology_t topology = NULL;
    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL), 0);
    assert_int_equal(hwloc_topology_set_xml(topology, path), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    dl_box box = {0};
    dl_probe_topology(&box, topology, sysfs);
    hwloc_topology_destroy(topology);
    const dl_nvml nvml = nvml_double_table();
    dl_gpu_probe(&box, &nvml);
    box.socket_memory_bytes_per_s = 60e9; /* instead of a measurement */
    box.socket_link_bytes_per_s = 17e9;
    return box;
}

static dl_machine write_and_read(dl_box *box)
{
    DL_AUTOFREE char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    dl_machine_gaps gaps = {0};
    dl_machine_write(box, out, &gaps);
    fclose(out);
    dl_machine machine = {0};
    dl_error err = {0};
    const dl_status status = dl_machine_read_text(&machine, "written.ini", text, bytes, &err);
    if (status != DL_OK || gaps.count > 0) fail_msg("line %d: %s\n%s", err.line, err.text, text);
    dl_box_free(box);
    return machine;
}

/* Lanes of the hybrid cube mesh, as in scenarios/machines/dgx1_v100.ini. */
static void set_dgx1(void)
{
    static const int single[][2] = {{0, 1}, {0, 2}, {1, 3}, {2, 6}, {3, 7}, {4, 5}, {4, 6}, {5, 7}};
    static const int twice[][2] = {{0, 3}, {0, 4}, {1, 2}, {1, 5}, {2, 3}, {4, 7}, {5, 6}, {6, 7}};
    static const unsigned buses[] = {0x13, 0x14, 0x33, 0x34, 0x53, 0x54, 0x73, 0x74};
    nvml_double = (nvml_double_state){.gpus = 8,
                                      .name = "Tesla V100-SXM2-16GB",
                                      .memory_gib = 16,
                                      .sm_mhz = 1530,
                                      .memory_mhz = 877,
                                      .cores = 5120,
                                      .bus_bits = 4096,
                                      .lane_mb_per_s = 25781,
                                      .major = 7};
    memcpy(nvml_double.buses, buses, sizeof buses);
    for (int i = 0; i < 8; i++) {
        nvml_double.lanes[single[i][0]][single[i][1]] = 1;
        nvml_double.lanes[single[i][1]][single[i][0]] = 1;
        nvml_double.lanes[twice[i][0]][twice[i][1]] = 2;
        nvml_double.lanes[twice[i][1]][twice[i][0]] = 2;
    }
    /* No pair across sockets without NVLink can copy directly, which says nothing about nearer
     * pairs. */
    for (int a = 0; a < 4; a++) {
        for (int b = 4; b < 8; b++)
            nvml_double.peer[a][b] = 1;
    }
}

/* The shipped file of the same machine was written by hand: topology and lanes must be equal. */
static void a_dgx1_is_the_one_that_ships(void **state)
{
    (void)state;
    set_dgx1();
    char *sysfs = sysfs_tree_make();
    for (int i = 0; i < 4; i++) {
        char path[64];
        snprintf(path, sizeof path, "class/infiniband/mlx5_%d/ports/1/state", i);
        sysfs_tree_put(sysfs, path, "4: ACTIVE");
        snprintf(path, sizeof path, "class/infiniband/mlx5_%d/ports/1/rate", i);
        sysfs_tree_put(sysfs, path, "100 Gb/sec (4X EDR)");
        snprintf(path, sizeof path, "class/infiniband/mlx5_%d/ports/1/link_layer", i);
        sysfs_tree_put(sysfs, path, "InfiniBand");
    }
    dl_box box = probe_fixture("dgx", sysfs);
    sysfs_tree_free(sysfs);
    DL_SCOPED(dl_machine) found = write_and_read(&box), shipped = {0};
    dl_error err = {0};
    if (dl_machine_read(&shipped, DL_MACHINES "/dgx1_v100.ini", &err) != DL_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(found.kinds[0].gpu_count, shipped.kinds[0].gpu_count);
    assert_int_equal(found.kinds[0].switch_count, shipped.kinds[0].switch_count);
    assert_int_equal(found.kinds[0].nic_count, shipped.kinds[0].nic_count);
    assert_int_equal(found.kinds[0].nvlink_count, shipped.kinds[0].nvlink_count);
    for (int i = 0; i < found.kinds[0].gpu_count; i++)
        assert_int_equal(found.kinds[0].gpus[i].parent, shipped.kinds[0].gpus[i].parent);
    for (int i = 0; i < found.kinds[0].nic_count; i++)
        assert_int_equal(found.kinds[0].nics[i].parent, shipped.kinds[0].nics[i].parent);
    int lanes[8][8] = {{0}};
    for (int i = 0; i < found.kinds[0].nvlink_count; i++)
        lanes[found.kinds[0].nvlinks[i].a][found.kinds[0].nvlinks[i].b] =
            found.kinds[0].nvlinks[i].lanes;
    for (int i = 0; i < shipped.kinds[0].nvlink_count; i++)
        assert_int_equal(lanes[shipped.kinds[0].nvlinks[i].a][shipped.kinds[0].nvlinks[i].b],
                         shipped.kinds[0].nvlinks[i].lanes);
    NEAR(found.classes[found.kinds[0].nvlinks[0].link].bytes_per_s.value, 23.976e9);
    assert_int_equal(found.kinds[0].peer, shipped.kinds[0].peer);
    assert_int_equal(found.nodes, 1);
}

/* Eight GeForce cards below two switches, without NVLink; no pair can copy directly. */
static void a_box_with_two_switches_is_read(void **state DL_UNUSED)
{
    static const unsigned buses[] = {0x23, 0x24, 0x25, 0x26, 0x43, 0x44, 0x45, 0x46};
    nvml_double = (nvml_double_state){.gpus = 8,
                                      .name = "NVIDIA GeForce RTX 3090",
                                      .memory_gib = 24,
                                      .sm_mhz = 1695,
                                      .memory_mhz = 9751,
                                      .cores = 10496,
                                      .bus_bits = 384,
                                      .major = 8,
                                      .minor = 6};
    memcpy(nvml_double.buses, buses, sizeof buses);
    memset(nvml_double.peer, 1, sizeof nvml_double.peer);
    dl_box box = probe_fixture("two_switches", NULL);
    DL_SCOPED(dl_machine) found = write_and_read(&box);
    assert_int_equal(found.kinds[0].peer, DL_PEER_NONE);
    assert_int_equal(found.kinds[0].gpu_count, 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(found.kinds[0].gpus[i].parent, found.kinds[0].sockets + i / 4);
    assert_string_equal(found.models[0].name, "geforce_rtx_3090");
    NEAR(found.models[0].memory_bytes_per_s.value, 936.1e9);
    assert_int_equal(found.kinds[0].nvlink_count, 0);
    assert_int_equal(found.kinds[0].nic_count, 0); /* the rate of its port is unknown */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dgx1_is_the_one_that_ships),
        cmocka_unit_test(a_box_with_two_switches_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
