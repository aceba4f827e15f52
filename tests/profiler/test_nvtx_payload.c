#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "profiler/inject/nvtx_payload.h"

/* A type of 6 bytes, aligned to 2, under the id 1 << 24; nothing else is registered. */
static bool find_nested(void *user DL_UNUSED, uint64_t id, dl_payload_type *type)
{
    if (id != NVTX_PAYLOAD_SCHEMA_ID_STATIC_START) return false;
    *type = (dl_payload_type){6, 2, DL_PAYLOAD_OTHER};
    return true;
}

static nvtxPayloadSchemaAttr_t schema_of(const nvtxPayloadSchemaEntry_t *entries, size_t count)
{
    return (nvtxPayloadSchemaAttr_t){.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                                                  NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES,
                                     .entries = entries,
                                     .numEntries = count};
}

static dl_payload_layout make(const nvtxPayloadSchemaAttr_t *attr)
{
    dl_payload_layout layout = {0};
    assert_true(dl_payload_layout_make(&layout, attr, find_nested, NULL));
    return layout;
}

static uint64_t read_named(const dl_payload_layout *layout, const char *name, const void *data,
                           size_t size)
{
    const nvtxPayloadData_t payload = {.size = size, .payload = data};
    uint64_t value = 0;
    assert_true(dl_payload_read(layout, dl_payload_find(layout, name), &payload, &value));
    return value;
}

/* Entries without offsets have the offsets that the compiler gives the struct's members. */
static void test_natural_alignment(void **state DL_UNUSED)
{
    const nvtxPayloadSchemaEntry_t entries[] = {
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT8, .name = "a"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT64, .name = "b"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT16, .name = "c"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT, .name = "d"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, .name = "e"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_SIZE, .name = "f"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_CHAR, .name = "g"},
    };
    const struct {
        uint8_t a;
        uint64_t b;
        int16_t c;
        int d;
        double e;
        size_t f;
        char g;
    } data = {1, UINT64_MAX - 1, -3, -4, 0.5, 6, 7};
    const nvtxPayloadSchemaAttr_t attr = schema_of(entries, 7);
    DL_SCOPED(dl_payload_layout) layout = make(&attr);
    assert_int_equal(read_named(&layout, "a", &data, sizeof data), 1);
    assert_true(read_named(&layout, "b", &data, sizeof data) == UINT64_MAX - 1);
    assert_int_equal((int64_t)read_named(&layout, "c", &data, sizeof data), -3);
    assert_int_equal((int64_t)read_named(&layout, "d", &data, SIZE_MAX), -4);
    assert_int_equal(read_named(&layout, "f", &data, sizeof data), 6);
    assert_int_equal(read_named(&layout, "g", &data, sizeof data), 7);
    assert_int_equal(layout.as_type.bytes, sizeof data);
    assert_int_equal(layout.as_type.align, _Alignof(uint64_t));
    uint64_t value = 77;
    const nvtxPayloadData_t payload = {.size = sizeof data, .payload = &data};
    assert_false(dl_payload_read(&layout, dl_payload_find(&layout, "e"), &payload, &value));
    assert_int_equal(dl_payload_find(&layout, "nobody"), -1);
    assert_false(dl_payload_read(&layout, -1, &payload, &value));
    assert_int_equal(value, 77);
}

/* Given offsets, packing to 2 bytes, arrays, texts in place, a nested schema. */
static void test_places(void **state DL_UNUSED)
{
    const nvtxPayloadSchemaEntry_t entries[] = {
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT8, .name = "at 0"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT32, .name = "at 2"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, .name = "text", .arrayOrUnionDetail = 5},
        {.type = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START, .name = "nested at 12"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT16, .name = "at 18"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT8,
         .name = "array",
         .flags = NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE,
         .arrayOrUnionDetail = 3},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT8, .name = "at 23"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT8, .name = "at 40", .offset = 40},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT8, .name = "at 41"},
    };
    nvtxPayloadSchemaAttr_t attr = schema_of(entries, 9);
    attr.fieldMask |= NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT;
    attr.packAlign = 2;
    DL_SCOPED(dl_payload_layout) layout = make(&attr);
    uint8_t data[42];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)i;
    assert_int_equal(read_named(&layout, "at 2", data, sizeof data), 0x05040302);
    assert_int_equal(read_named(&layout, "at 18", data, sizeof data), 0x1312);
    assert_int_equal(read_named(&layout, "at 23", data, sizeof data), 23);
    assert_int_equal(read_named(&layout, "at 40", data, sizeof data), 40);
    assert_int_equal(read_named(&layout, "at 41", data, sizeof data), 41);
    uint64_t value;
    const nvtxPayloadData_t cut = {.size = 41, .payload = data}, none = {.size = 42};
    const int last = dl_payload_find(&layout, "at 41");
    assert_false(dl_payload_read(&layout, last, &cut, &value));
    assert_false(dl_payload_read(&layout, last, &none, &value));
    assert_false(dl_payload_read(&layout, dl_payload_find(&layout, "array"), &cut, &value));
}

/* Entries after one of unknown size have no offset, unless they give one. */
static void test_unknown_size(void **state DL_UNUSED)
{
    const nvtxPayloadSchemaEntry_t unknown[] = {
        {.type = 999, .name = "?"},
        {.type = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 1, .name = "?"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT,
         .name = "?",
         .flags = NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT,
         .name = "?",
         .flags = NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT,
         .name = "?",
         .flags = NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE,
         .arrayOrUnionDetail = UINT64_MAX / 4},
    };
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        const nvtxPayloadSchemaEntry_t entries[] = {
            unknown[i],
            {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT, .name = "lost"},
            {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT, .name = "placed", .offset = 8},
            {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT, .name = "behind"},
        };
        const nvtxPayloadSchemaAttr_t attr = schema_of(entries, 4);
        DL_SCOPED(dl_payload_layout) layout = make(&attr);
        const int data[4] = {1, 2, 3, 4};
        const nvtxPayloadData_t payload = {.size = sizeof data, .payload = data};
        uint64_t value;
        assert_false(dl_payload_read(&layout, dl_payload_find(&layout, "?"), &payload, &value));
        assert_false(dl_payload_read(&layout, dl_payload_find(&layout, "lost"), &payload, &value));
        assert_int_equal(read_named(&layout, "placed", data, sizeof data), 3);
        assert_int_equal(read_named(&layout, "behind", data, sizeof data), 4);
    }
}

static void test_refused(void **state DL_UNUSED)
{
    const nvtxPayloadSchemaEntry_t entry = {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT};
    nvtxPayloadSchemaAttr_t attr = schema_of(&entry, 1);
    dl_payload_layout layout = {0};
    attr.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES;
    assert_false(dl_payload_layout_make(&layout, &attr, find_nested, NULL));
    attr = schema_of(NULL, 1);
    assert_false(dl_payload_layout_make(&layout, &attr, find_nested, NULL));
    attr = schema_of(&entry, 0);
    assert_false(dl_payload_layout_make(&layout, &attr, find_nested, NULL));
    assert_null(layout.entries);

    dl_payload_type type;
    nvtxPayloadEnumAttr_t values = {.sizeOfEnum = 4};
    assert_false(dl_payload_enum_type(&type, &values));
    values.fieldMask = NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE;
    assert_true(dl_payload_enum_type(&type, &values));
    assert_int_equal(type.bytes, 4);
    values.sizeOfEnum = 3;
    assert_false(dl_payload_enum_type(&type, &values));
}

/* The members of a union are not decoded, but its given size counts. */
static void test_union(void **state DL_UNUSED)
{
    const nvtxPayloadSchemaEntry_t entry = {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT, .name = "member"};
    nvtxPayloadSchemaAttr_t attr = schema_of(&entry, 1);
    attr.fieldMask |=
        NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
    attr.type = NVTX_PAYLOAD_SCHEMA_TYPE_UNION;
    attr.payloadStaticSize = 24;
    DL_SCOPED(dl_payload_layout) layout = make(&attr);
    assert_int_equal(dl_payload_find(&layout, "member"), -1);
    assert_int_equal(layout.as_type.bytes, 24);
}

static uint32_t random_state = 12345;

/* Xorshift: the same cases in every run. */
static uint64_t draw(uint64_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % limit;
}

static uint64_t draw_hostile(void)
{
    static const uint64_t values[] = {0,  0,    0,          1,        2,           8,
                                      63, 4096, UINT32_MAX, SIZE_MAX, SIZE_MAX / 2};
    return values[draw(sizeof values / sizeof values[0])];
}

/* Any schema against a payload of any size: all reads lie inside the payload (the sanitizer watches
 * a block of exactly its size), and reading again gives the same result. */
static void test_random_schemas(void **state DL_UNUSED)
{
    size_t read_count = 0;
    for (int round = 0; round < 20000; round++) {
        nvtxPayloadSchemaEntry_t entries[80] = {0};
        const size_t count = 1 + draw(draw(10) == 0 ? 80 : 8);
        for (size_t i = 0; i < count; i++) {
            entries[i].type = draw(8) == 0 ? draw_hostile() : draw(110);
            if (draw(16) == 0) entries[i].type = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + draw(2);
            if (draw(3) == 0) entries[i].flags = draw(1 << 15);
            entries[i].arrayOrUnionDetail = draw_hostile();
            if (draw(3) == 0) entries[i].offset = draw(2) == 0 ? draw(64) : draw_hostile();
            entries[i].name = draw(2) == 0 ? "name" : NULL;
        }
        nvtxPayloadSchemaAttr_t attr = schema_of(entries, count);
        attr.fieldMask = draw(4) == 0 ? draw(1 << 10) : attr.fieldMask;
        attr.type = draw(6);
        attr.packAlign = draw(2) == 0 ? draw(17) : draw_hostile();
        attr.payloadStaticSize = draw(40);
        dl_payload_layout layout;
        if (!dl_payload_layout_make(&layout, &attr, find_nested, NULL)) continue;
        const size_t size = draw(48);
        unsigned char *data = malloc(size > 0 ? size : 1);
        memset(data, 0xa5, size);
        const nvtxPayloadData_t payload = {.size = size, .payload = data};
        for (int i = -1; i <= (int)layout.count; i++) {
            uint64_t value, again;
            if (!dl_payload_read(&layout, i, &payload, &value)) continue;
            assert_true(dl_payload_read(&layout, i, &payload, &again) && value == again);
            assert_int_equal(value & 0xff, 0xa5);
            read_count++;
        }
        free(data);
        dl_payload_layout_free(&layout);
    }
    assert_true(read_count > 1000); /* not all cases are refused */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_natural_alignment),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_unknown_size),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_union),
        cmocka_unit_test(test_random_schemas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
