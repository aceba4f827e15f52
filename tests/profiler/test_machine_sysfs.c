#include "profiler/machine/machine_box.h"

#include <stdlib.h>

#include "tests/check.h"
#include "tests/doubles/sysfs_tree.h"

#define NEAR(a, b) assert_float_equal((float)((a) / (b)), 1.0F, 1e-4F)

static int make(void **state)
{
    *state = sysfs_tree_make();
    return 0;
}

static int clean(void **state)
{
    sysfs_tree_free(*state);
    return 0;
}

/* A card for PCIe 4.0 x16 in a slot for 3.0 with 8 lanes wired: 8 lanes of 8 GT/s with 128b/130b
 * give 7.877 GB/s. */
static void a_link_is_what_both_ends_can_do(void **state)
{
    sysfs_tree_put_link(*state, "0000:01:00.0", "16.0 GT/s PCIe", 16, 8);
    sysfs_tree_put_link(*state, "0000:00:01.0", "8.0 GT/s PCIe", 16, 0);
    const dl_pci_link link = dl_sysfs_pci_link(*state, "0000:01:00.0", "0000:00:01.0");
    assert_int_equal(link.lanes, 8);
    assert_int_equal(dl_pci_link_generation(&link), 3);
    NEAR(link.wire_bytes_per_s, 7.876923e9);
    const dl_pci_link alone = dl_sysfs_pci_link(*state, "0000:01:00.0", NULL);
    assert_int_equal(dl_pci_link_generation(&alone), 4);
}

/* An idle GPU runs at 2.5 GT/s, which is not its limit: current_link_speed is not read. */
static void the_speed_at_rest_is_not_taken(void **state)
{
    sysfs_tree_put_link(*state, "0000:01:00.0", "8.0 GT/s PCIe", 16, 16);
    sysfs_tree_put(*state, "bus/pci/devices/0000:01:00.0/current_link_speed", "2.5 GT/s PCIe");
    const dl_pci_link link = dl_sysfs_pci_link(*state, "0000:01:00.0", "");
    NEAR(link.wire_bytes_per_s, 15.753846e9);
}

static void what_is_not_told_is_zero(void **state)
{
    sysfs_tree_put_link(*state, "0000:02:00.0", "Unknown", 255, 255);
    dl_pci_link link = dl_sysfs_pci_link(*state, "0000:02:00.0", NULL);
    assert_int_equal(link.lanes, 0);
    assert_true(link.wire_bytes_per_s <= 0);
    link = dl_sysfs_pci_link(*state, "0000:03:00.0", "0000:00:01.0");
    assert_true(link.lanes == 0 && link.wire_bytes_per_s <= 0);
    assert_true(dl_sysfs_net_rate(*state, "eth9") <= 0);
    assert_false(dl_sysfs_has_module(*state, "nvidia_peermem"));
    assert_false(dl_sysfs_is_virtual_function(*state, "0000:02:00.0"));
}

static void ports_have_rates(void **state)
{
    sysfs_tree_put(*state, "class/net/eth0/speed", "25000");
    sysfs_tree_put(*state, "class/net/eth1/speed", "-1");
    NEAR(dl_sysfs_net_rate(*state, "eth0"), 3.125e9);
    assert_true(dl_sysfs_net_rate(*state, "eth1") <= 0);
    sysfs_tree_put(*state, "class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)");
    sysfs_tree_put(*state, "class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
    sysfs_tree_put(*state, "class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand");
    NEAR(dl_sysfs_infiniband_rate(*state, "mlx5_0"), 25e9);
    assert_true(dl_sysfs_is_infiniband(*state, "mlx5_0"));
    sysfs_tree_put(*state, "class/infiniband/mlx5_1/ports/1/rate", "10 Gb/sec (4X SDR)");
    sysfs_tree_put(*state, "class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
    sysfs_tree_put(*state, "class/infiniband/mlx5_1/ports/1/link_layer", "Ethernet");
    assert_true(dl_sysfs_infiniband_rate(*state, "mlx5_1") <= 0);
    assert_false(dl_sysfs_is_infiniband(*state, "mlx5_1"));
}

static void modules_and_virtual_functions_are_seen(void **state)
{
    sysfs_tree_put(*state, "module/nvidia_peermem/refcnt", "0");
    assert_true(dl_sysfs_has_module(*state, "nvidia_peermem"));
    sysfs_tree_put(*state, "bus/pci/devices/0000:04:00.2/physfn/vendor", "0x15b3");
    assert_true(dl_sysfs_is_virtual_function(*state, "0000:04:00.2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_link_is_what_both_ends_can_do, make, clean),
        cmocka_unit_test_setup_teardown(the_speed_at_rest_is_not_taken, make, clean),
        cmocka_unit_test_setup_teardown(what_is_not_told_is_zero, make, clean),
        cmocka_unit_test_setup_teardown(ports_have_rates, make, clean),
        cmocka_unit_test_setup_teardown(modules_and_virtual_functions_are_seen, make, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
