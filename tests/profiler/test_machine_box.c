#include "profiler/machine/machine_box.h"

#include "tests/check.h"

/* Sockets 0 and 1; switch 2 on socket 1, switches 3 and 4 below it, switch 5 on socket 0. */
static dl_box_switch switches[] = {{.parent = 1}, {.parent = 2}, {.parent = 2}, {.parent = 0}};
static const dl_box box = {.sockets = 2, .switches = switches, .switch_count = 4};

static void places_lead_to_their_socket(void **state DL_UNUSED)
{
    static const int sockets[] = {0, 1, 1, 1, 1, 0};
    for (int place = 0; place < 6; place++)
        assert_int_equal(dl_box_socket(&box, place), sockets[place]);
}

static void switches_are_shared_at_any_height(void **state DL_UNUSED)
{
    assert_true(dl_box_share_switch(&box, 3, 3));
    assert_true(dl_box_share_switch(&box, 3, 4));
    assert_true(dl_box_share_switch(&box, 2, 4));
    assert_false(dl_box_share_switch(&box, 3, 5));
    assert_false(dl_box_share_switch(&box, 3, 1));
    assert_false(dl_box_share_switch(&box, 0, 0));
}

/* Published rates of 16 lanes in GB/s: 4, 8, 15.75, 31.5, 63 and, with 236 of 256 bytes, 118. */
static void each_generation_has_its_rate(void **state DL_UNUSED)
{
    static const double gt_per_s[] = {2.5, 5, 8, 16, 32, 64};
    static const double gb_per_s[] = {4, 8, 15.7538, 31.5077, 63.0154, 118};
    for (int i = 0; i < 6; i++) {
        dl_pci_link link = {.transfers_per_s = gt_per_s[i] * 1e9, .lanes = 16};
        dl_pci_link_set_wire(&link);
        assert_int_equal(dl_pci_link_generation(&link), i + 1);
        assert_float_equal((float)(link.wire_bytes_per_s / 1e9), (float)gb_per_s[i], 1e-3F);
    }
    dl_pci_link odd = {.transfers_per_s = 7e9, .lanes = 16, .wire_bytes_per_s = 1};
    dl_pci_link_set_wire(&odd);
    assert_int_equal(dl_pci_link_generation(&odd), 0);
    assert_true(odd.wire_bytes_per_s <= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_lead_to_their_socket),
        cmocka_unit_test(switches_are_shared_at_any_height),
        cmocka_unit_test(each_generation_has_its_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
