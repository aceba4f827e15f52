#include "profiler/machine/machine_box.h"

#include "tests/check.h"

#define NEAR(a, b) assert_float_equal((float)((a) / (b)), 1.0F, 1e-3F)

static const dl_pci_link gen4x16 = {16e9, 16, 31.507692e9}, plain = {0, 0, 15.753846e9};

static const dl_link_section *find(const dl_link_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].name, name) == 0) return &list->items[i];
    }
    fail_msg("no link %s", name);
    return NULL;
}

static void links_are_named_by_what_is_known(void **state DL_UNUSED)
{
    char name[DL_LINK_NAME_BYTES];
    dl_pci_link_name(name, &gen4x16);
    assert_string_equal(name, "pcie4x16");
    dl_pci_link_name(name, &plain);
    assert_string_equal(name, "pcie15.75");
    dl_pci_link_name(name, &(dl_pci_link){0});
    assert_string_equal(name, "pcie");
    dl_port_name(name, &(dl_box_nic){.infiniband = true, .port_bytes_per_s = 25e9});
    assert_string_equal(name, "infiniband200");
    dl_port_name(name, &(dl_box_nic){.port_bytes_per_s = 312.5e6});
    assert_string_equal(name, "ethernet2.5");
}

/* PCIe 4.0 x16: 0.8 of 31.5 GB/s; 12 lanes of 25 GB/s: 0.93 of 300, of which 279 were measured. */
static void each_kind_comes_once_with_what_programs_get(void **state DL_UNUSED)
{
    dl_box_gpu gpus[] = {{.link = gen4x16}, {.link = gen4x16}};
    dl_box_nic nics[] = {{.link = gen4x16, .infiniband = true, .port_bytes_per_s = 25e9},
                         {.link = plain, .port_bytes_per_s = 1.25e9},
                         {.link = {0}}}; /* without a cable */
    const dl_box box = {.sockets = 1,
                        .gpus = gpus,
                        .gpu_count = 2,
                        .nics = nics,
                        .nic_count = 3,
                        .nvswitch_lanes = 12,
                        .nvlink_bytes_per_s = 25e9};
    dl_link_list list = dl_link_list_make(&box);
    assert_int_equal(list.count, 5);
    NEAR(find(&list, "pcie4x16")->bytes_per_s, 25.2e9);
    NEAR(find(&list, "pcie15.75")->bytes_per_s, 12.6e9);
    NEAR(find(&list, "infiniband200")->bytes_per_s, 24e9);
    NEAR(find(&list, "ethernet10")->bytes_per_s, 1.175e9);
    NEAR(find(&list, "nvswitch")->bytes_per_s, 279e9);
    for (size_t i = 0; i < list.count; i++) {
        assert_int_equal(list.items[i].origin, DL_ORIGIN_ASSUMED);
        assert_true(list.items[i].latency_ns > 0);
        assert_contains(list.items[i].comment, "on the wire");
    }
    dl_link_list_free(&list);
    assert_null(list.items);
}

static void what_is_unknown_says_where_to_look(void **state DL_UNUSED)
{
    dl_box_gpu gpu = {0};
    dl_box_nvlink pair = {0, 1, 2};
    dl_box box = {.sockets = 2, .gpus = &gpu, .gpu_count = 1, .nvlinks = &pair, .nvlink_count = 1};
    dl_link_list list = dl_link_list_make(&box);
    assert_int_equal(list.count, 3);
    static const char *const where[][2] = {
        {"pcie", "lspci"}, {"nvlink", "nvidia-smi"}, {"sockets", "--measure"}};
    for (int i = 0; i < 3; i++) {
        const dl_link_section *link = find(&list, where[i][0]);
        assert_true(link->bytes_per_s <= 0 && link->latency_ns > 0);
        assert_contains(link->comment, where[i][1]);
    }
    dl_link_list_free(&list);
    box.socket_link_bytes_per_s = 30e9;
    list = dl_link_list_make(&box);
    assert_int_equal(find(&list, "sockets")->origin, DL_ORIGIN_MEASURED);
    NEAR(find(&list, "sockets")->bytes_per_s, 30e9);
    dl_link_list_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_are_named_by_what_is_known),
        cmocka_unit_test(each_kind_comes_once_with_what_programs_get),
        cmocka_unit_test(what_is_unknown_says_where_to_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
