#include "profiler/machine/machine_gpu.h"

#include <stdio.h>

#include "tests/check.h"
#include "tests/doubles/nvml_double.h"

#define NEAR(a, b) assert_float_equal((float)((a) / (b)), 1.0F, 1e-4F)

static int reset(void **state DL_UNUSED)
{
    nvml_double = nvml_double_default();
    return 0;
}

/* Two sockets with a switch each; GPUs at buses 0x13, 0x14 (switch 0), 0x53 (socket 1), 0x54
 * (switch 1). */
static dl_box make_box(void)
{
    static const dl_box_switch switches[] = {{.parent = 0}, {.parent = 1}};
    static const dl_box_gpu gpus[] = {{.bus_id = "0000:13:00.0", .parent = 2},
                                      {.bus_id = "0000:14:00.0", .parent = 2},
                                      {.bus_id = "0000:53:00.0", .parent = 1},
                                      {.bus_id = "0000:54:00.0", .parent = 3}};
    dl_box box = {.sockets = 2, .switch_count = 2, .gpu_count = 4, .places_known = true};
    box.switches = dl_calloc(2, sizeof *switches, "switches");
    memcpy(box.switches, switches, sizeof switches);
    box.gpus = dl_calloc(4, sizeof *gpus, "GPUs");
    memcpy(box.gpus, gpus, sizeof gpus);
    return box;
}

static dl_box probe_four(void)
{
    nvml_double.gpus = 4;
    nvml_double.buses[2] = 0x53;
    nvml_double.buses[3] = 0x54;
    dl_box box = make_box();
    const dl_nvml nvml = nvml_double_table();
    dl_gpu_probe(&box, &nvml);
    return box;
}

static void figures_come_from_the_driver(void **state DL_UNUSED)
{
    DL_SCOPED(dl_box) box = probe_four();
    assert_int_equal(box.gpu_count, 4);
    const dl_box_gpu *gpu = &box.gpus[3];
    assert_string_equal(gpu->name, "NVIDIA A100-SXM4-40GB");
    assert_true(gpu->major == 8 && gpu->minor == 0);
    NEAR(gpu->memory_bytes, 40 * 0x1p30);
    NEAR(gpu->clock_hz, 1.41e9);
    NEAR(gpu->memory_clock_hz, 1.215e9);
    NEAR(gpu->cores, 6912);
    NEAR(gpu->memory_bus_bits, 5120);
    NEAR(gpu->link.wire_bytes_per_s, 31.507692e9); /* PCIe 4.0 x16 */
}

static void a_link_that_is_known_is_kept(void **state DL_UNUSED)
{
    DL_SCOPED(dl_box) box = make_box();
    box.gpus[0].link = (dl_pci_link){8e9, 8, 7.9e9};
    const dl_nvml nvml = nvml_double_table();
    dl_gpu_probe(&box, &nvml);
    NEAR(box.gpus[0].link.wire_bytes_per_s, 7.9e9);
    NEAR(box.gpus[1].link.wire_bytes_per_s, 31.507692e9);
}

/* The driver does not show GPUs 2 and 3: nothing is known about them. */
static void hidden_gpus_stay_unknown(void **state DL_UNUSED)
{
    DL_SCOPED(dl_box) box = make_box();
    const dl_nvml nvml = nvml_double_table();
    dl_gpu_probe(&box, &nvml);
    assert_int_equal(box.gpu_count, 4);
    assert_string_equal(box.gpus[2].name, "");
    assert_true(box.gpus[2].memory_bytes <= 0);
}

static void gpus_that_the_tree_lacks_are_added(void **state DL_UNUSED)
{
    DL_SCOPED(dl_box) box = {.sockets = 2, .places_known = true};
    const dl_nvml nvml = nvml_double_table();
    dl_gpu_probe(&box, &nvml);
    assert_int_equal(box.gpu_count, 2);
    assert_string_equal(box.gpus[1].bus_id, "0000:14:00.0");
    assert_int_equal(box.gpus[1].device_id, 0x20b0);
    assert_int_equal(box.gpus[1].parent, 0);
    assert_false(box.places_known);
}

/* Only one end reports the lanes between 0 and 3; GPU 1 has a lane to a processor. */
static void lanes_between_gpus_are_pairs(void **state DL_UNUSED)
{
    nvml_double.lanes[1][3] = 4;
    nvml_double.lanes[3][1] = 4;
    nvml_double.lanes[3][0] = 2;
    nvml_double.lanes[1][NVML_DOUBLE_NPU] = 2;
    DL_SCOPED(dl_box) box = probe_four();
    assert_int_equal(box.nvlink_count, 3);
    static const dl_box_nvlink expected[] = {{0, 1, 12}, {0, 3, 2}, {1, 3, 4}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(box.nvlinks[i].a, expected[i].a);
        assert_int_equal(box.nvlinks[i].b, expected[i].b);
        assert_int_equal(box.nvlinks[i].lanes, expected[i].lanes);
    }
    NEAR(box.nvlink_bytes_per_s, 25e9);
    assert_int_equal(box.nvswitch_lanes, 0);
}

static void use_switch(void)
{
    memset(nvml_double.lanes, 0, sizeof nvml_double.lanes);
    for (int gpu = 0; gpu < 4; gpu++)
        nvml_double.lanes[gpu][NVML_DOUBLE_SWITCH] = 12;
}

/* Then all pairs have NVLink, which says nothing about copies through PCIe. */
static void lanes_to_a_switch_are_an_nvswitch(void **state DL_UNUSED)
{
    use_switch();
    DL_SCOPED(dl_box) box = probe_four();
    assert_int_equal(box.nvlink_count, 0);
    assert_int_equal(box.nvswitch_lanes, 12);
    NEAR(box.nvlink_bytes_per_s, 25e9);
    assert_false(box.peer_known);
}

/* Older drivers cannot report the kind of the remote end, but show the switch's own address. */
static void a_switch_is_known_by_its_address(void **state DL_UNUSED)
{
    use_switch();
    nvml_double.gpus = 2;
    DL_SCOPED(dl_box) box = {.sockets = 1};
    dl_nvml nvml = nvml_double_table();
    nvml.DeviceGetNvLinkRemoteDeviceType = NULL;
    dl_gpu_probe(&box, &nvml);
    assert_int_equal(box.nvswitch_lanes, 12);
}

/* Without NVLink: 0-1 share a switch, 2-3 a socket, the other pairs nothing. */
static void peers_are_what_all_pairs_so_near_may(void **state DL_UNUSED)
{
    static const struct {
        int a, b; /* pair that cannot copy directly; -1 = all can */
        dl_peer peer;
    } cases[] = {{-1, -1, DL_PEER_ALL},
                 {0, 3, DL_PEER_SOCKET},
                 {2, 3, DL_PEER_SWITCH},
                 {0, 1, DL_PEER_NONE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nvml_double = nvml_double_default();
        memset(nvml_double.lanes, 0, sizeof nvml_double.lanes);
        if (cases[i].a >= 0) nvml_double.peer[cases[i].a][cases[i].b] = 1;
        DL_SCOPED(dl_box) box = probe_four();
        assert_true(box.peer_known);
        assert_int_equal(box.peer, cases[i].peer);
        assert_int_equal(box.nvlink_count, 0);
        assert_true(box.nvlink_bytes_per_s <= 0);
    }
}

/* The pairs that share a socket or a switch have NVLink; no other pair can copy directly. */
static void refusals_say_nothing_of_nearer_pairs(void **state DL_UNUSED)
{
    memset(nvml_double.peer, 1, sizeof nvml_double.peer);
    nvml_double.lanes[2][3] = nvml_double.lanes[3][2] = 1;
    DL_SCOPED(dl_box) box = probe_four();
    assert_false(box.peer_known);
}

static void old_drivers_leave_out_what_they_lack(void **state DL_UNUSED)
{
    dl_nvml nvml = nvml_double_table();
    nvml.DeviceGetNumGpuCores = NULL;
    nvml.DeviceGetMemoryBusWidth = NULL;
    nvml.DeviceGetMaxPcieLinkGeneration = NULL;
    nvml.DeviceGetMaxPcieLinkWidth = NULL;
    nvml.DeviceGetFieldValues = NULL;
    nvml.DeviceGetP2PStatus = NULL;
    dl_box box = {.sockets = 1};
    dl_gpu_probe(&box, &nvml);
    assert_true(box.gpus[0].cores <= 0 && box.gpus[0].memory_bus_bits <= 0);
    assert_true(box.gpus[0].link.wire_bytes_per_s <= 0);
    assert_true(box.gpus[0].clock_hz > 0);
    assert_int_equal(box.nvlink_count, 1);
    assert_true(box.nvlink_bytes_per_s <= 0);
    assert_false(box.peer_known);
    dl_box_free(&box);
    nvml.DeviceGetNvLinkState = NULL;
    dl_gpu_probe(&box, &nvml);
    assert_int_equal(box.nvlink_count, 0);
    dl_box_free(&box);
}

static void the_library_is_opened(void **state DL_UNUSED)
{
    dl_nvml nvml = {0};
    dl_error err = {0};
    if (dl_nvml_open(&nvml, DL_NVML_DOUBLE, &err) != DL_OK) fail_msg("%s", err.text);
    DL_SCOPED(dl_box) box = {.sockets = 1};
    dl_gpu_probe(&box, &nvml);
    assert_int_equal(box.gpu_count, 2);
    dl_nvml_close(&nvml);
    assert_null(nvml.library);
}

static void what_is_no_library_is_refused(void **state DL_UNUSED)
{
    dl_nvml nvml = {0};
    dl_error err = {0};
    assert_int_equal(dl_nvml_open(&nvml, "no_such_library.so.1", &err), DL_ERR_UNSUPPORTED);
    assert_contains(err.text, "no NVIDIA driver");
    assert_int_equal(dl_nvml_open(&nvml, "libz.so.1", &err), DL_ERR_UNSUPPORTED);
    assert_contains(err.text, "lacks nvmlInit_v2");
    assert_null(nvml.library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(figures_come_from_the_driver, reset),
        cmocka_unit_test_setup(a_link_that_is_known_is_kept, reset),
        cmocka_unit_test_setup(hidden_gpus_stay_unknown, reset),
        cmocka_unit_test_setup(gpus_that_the_tree_lacks_are_added, reset),
        cmocka_unit_test_setup(lanes_between_gpus_are_pairs, reset),
        cmocka_unit_test_setup(lanes_to_a_switch_are_an_nvswitch, reset),
        cmocka_unit_test_setup(a_switch_is_known_by_its_address, reset),
        cmocka_unit_test_setup(peers_are_what_all_pairs_so_near_may, reset),
        cmocka_unit_test_setup(refusals_say_nothing_of_nearer_pairs, reset),
        cmocka_unit_test_setup(old_drivers_leave_out_what_they_lack, reset),
        cmocka_unit_test(the_library_is_opened),
        cmocka_unit_test(what_is_no_library_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
