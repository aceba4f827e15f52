#include "profiler/inject/nvtx_payload.h"

#include <stdlib.h>
#include <string.h>

/* Larger offsets count as unknown, so that sums of malicious offsets do not overflow. */
#define OFFSET_MAX ((uint64_t)1 << 40)

#define ARRAY_FLAGS \
    (NVTX_PAYLOAD_ENTRY_FLAG_IS_ARRAY | NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_PAYLOAD_INDEX)
#define RELATIVE_FLAGS \
    (NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_BASE | NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_HERE)

#define SIGNED(type)                                    \
    {                                                   \
        sizeof(type), _Alignof(type), DL_PAYLOAD_SIGNED \
    }
#define UNSIGNED(type)                                    \
    {                                                     \
        sizeof(type), _Alignof(type), DL_PAYLOAD_UNSIGNED \
    }
#define OTHER(type)                                    \
    {                                                  \
        sizeof(type), _Alignof(type), DL_PAYLOAD_OTHER \
    }
#define RAW(bytes)                     \
    {                                  \
        bytes, bytes, DL_PAYLOAD_OTHER \
    }

/* The predefined types, with their sizes in this process. */
static const dl_payload_type predefined[] = {
    [NVTX_PAYLOAD_ENTRY_TYPE_CHAR] = SIGNED(char),
    [NVTX_PAYLOAD_ENTRY_TYPE_UCHAR] = UNSIGNED(unsigned char),
    [NVTX_PAYLOAD_ENTRY_TYPE_SHORT] = SIGNED(short),
    [NVTX_PAYLOAD_ENTRY_TYPE_USHORT] = UNSIGNED(unsigned short),
    [NVTX_PAYLOAD_ENTRY_TYPE_INT] = SIGNED(int),
    [NVTX_PAYLOAD_ENTRY_TYPE_UINT] = UNSIGNED(unsigned int),
    [NVTX_PAYLOAD_ENTRY_TYPE_LONG] = SIGNED(long),
    [NVTX_PAYLOAD_ENTRY_TYPE_ULONG] = UNSIGNED(unsigned long),
    [NVTX_PAYLOAD_ENTRY_TYPE_LONGLONG] = SIGNED(long long),
    [NVTX_PAYLOAD_ENTRY_TYPE_ULONGLONG] = UNSIGNED(unsigned long long),
    [NVTX_PAYLOAD_ENTRY_TYPE_INT8] = SIGNED(int8_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_UINT8] = UNSIGNED(uint8_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_INT16] = SIGNED(int16_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_UINT16] = UNSIGNED(uint16_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_INT32] = SIGNED(int32_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_UINT32] = UNSIGNED(uint32_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_INT64] = SIGNED(int64_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_UINT64] = UNSIGNED(uint64_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_FLOAT] = OTHER(float),
    [NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE] = OTHER(double),
    [NVTX_PAYLOAD_ENTRY_TYPE_LONGDOUBLE] = OTHER(long double),
    [NVTX_PAYLOAD_ENTRY_TYPE_SIZE] = UNSIGNED(size_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_ADDRESS] = UNSIGNED(void *),
    [NVTX_PAYLOAD_ENTRY_TYPE_WCHAR] = UNSIGNED(wchar_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_CHAR8] = UNSIGNED(uint8_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_CHAR16] = UNSIGNED(uint16_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_CHAR32] = UNSIGNED(uint32_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_BYTE] = UNSIGNED(uint8_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_INT128] = RAW(16),
    [NVTX_PAYLOAD_ENTRY_TYPE_UINT128] = RAW(16),
    [NVTX_PAYLOAD_ENTRY_TYPE_FLOAT16] = RAW(2),
    [NVTX_PAYLOAD_ENTRY_TYPE_FLOAT32] = RAW(4),
    [NVTX_PAYLOAD_ENTRY_TYPE_FLOAT64] = RAW(8),
    [NVTX_PAYLOAD_ENTRY_TYPE_FLOAT128] = RAW(16),
    [NVTX_PAYLOAD_ENTRY_TYPE_BF16] = RAW(2),
    [NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY] = UNSIGNED(uint32_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_COLOR_ARGB] = UNSIGNED(uint32_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_SCOPE_ID] = UNSIGNED(uint64_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT32] = UNSIGNED(uint32_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT64] = UNSIGNED(uint64_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT32] = UNSIGNED(uint32_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT64] = UNSIGNED(uint64_t),
    [NVTX_PAYLOAD_ENTRY_TYPE_CSTRING] = {sizeof(char *), _Alignof(char *), DL_PAYLOAD_TEXT},
    [NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8] = {sizeof(char *), _Alignof(char *), DL_PAYLOAD_TEXT},
    [NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF16] = OTHER(void *),
    [NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF32] = OTHER(void *),
    [NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE] = UNSIGNED(void *),
};
#define PREDEFINED_COUNT (sizeof predefined / sizeof predefined[0])

/* Bytes of one character of a string type, 0 for other types. */
static size_t character_bytes(uint64_t type)
{
    switch (type) {
    case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING:
    case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8: return 1;
    case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF16: return 2;
    case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF32: return 4;
    default: return 0;
    }
}

/* An array in place, with the number of elements given by the schema. */
static dl_payload_type array_of(dl_payload_type element, uint64_t count)
{
    const bool known = element.bytes > 0 && count <= OFFSET_MAX / element.bytes;
    return (dl_payload_type){known ? (size_t)(count * element.bytes) : 0, element.align,
                             DL_PAYLOAD_OTHER};
}

/* The size and form of an entry in the payload; bytes 0 if unknown. */
static dl_payload_type entry_type(const nvtxPayloadSchemaEntry_t *entry, dl_payload_find_type find,
                                  void *user)
{
    const uint64_t array = entry->flags & ARRAY_FLAGS;
    if (entry->flags & NVTX_PAYLOAD_ENTRY_FLAG_POINTER) return (dl_payload_type)OTHER(void *);
    if (entry->flags & RELATIVE_FLAGS) return (dl_payload_type){0};
    const size_t character = character_bytes(entry->type);
    if (character > 0 && entry->arrayOrUnionDetail > 0 &&
        (array == 0 || array == NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE)) {
        return array_of((dl_payload_type)RAW(character), entry->arrayOrUnionDetail);
    }
    if (array != 0 && array != NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE)
        return (dl_payload_type){0};
    dl_payload_type type = {0};
    if (entry->type < PREDEFINED_COUNT) {
        type = predefined[entry->type];
    } else if (!find(user, entry->type, &type)) {
        return (dl_payload_type){0};
    }
    return array == 0 ? type : array_of(type, entry->arrayOrUnionDetail);
}

/* Place of the next entry. */
typedef struct position {
    uint64_t next;
    size_t align; /* largest alignment so far */
    bool known;
} position;

/* Places entry number i after `at`. An offset of 0 means that none is given, except in the first
 * entry. */
static void put_entry(dl_payload_entry *made, const nvtxPayloadSchemaEntry_t *entry, size_t i,
                      dl_payload_type type, size_t pack, position *at)
{
    size_t align = type.align > 0 ? type.align : 1;
    if (pack > 0 && align > pack) align = pack;
    if (align > at->align) at->align = align;
    const bool placed = entry->offset != 0 || i == 0;
    const uint64_t offset =
        placed ? entry->offset : (at->next + align - 1) / align * (uint64_t)align;
    if ((!placed && !at->known) || type.bytes == 0 || type.bytes > UINT32_MAX ||
        offset > OFFSET_MAX) {
        at->known = false;
        return;
    }
    made->offset = (size_t)offset;
    made->bytes = (uint32_t)type.bytes;
    made->form = (uint8_t)type.form;
    at->next = offset + type.bytes;
    at->known = true;
}

static bool make_entries(dl_payload_layout *made, const nvtxPayloadSchemaAttr_t *attr, size_t pack,
                         dl_payload_find_type find, void *user)
{
    position at = {.align = 1, .known = true};
    for (size_t i = 0; i < made->count; i++) {
        const nvtxPayloadSchemaEntry_t *entry = &attr->entries[i];
        dl_payload_entry *one = &made->entries[i];
        one->name = strdup(entry->name != NULL ? entry->name : "");
        if (one->name == NULL) return false;
        one->type = entry->type;
        one->message = (entry->flags & NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE) != 0;
        put_entry(one, entry, i, entry_type(entry, find, user), pack, &at);
    }
    if (at.known && made->count == attr->numEntries) {
        made->as_type.align = at.align;
        made->as_type.bytes = (size_t)((at.next + at.align - 1) / at.align * at.align);
    }
    return true;
}

bool dl_payload_layout_make(dl_payload_layout *layout, const nvtxPayloadSchemaAttr_t *attr,
                            dl_payload_find_type find, void *user)
{
    const uint64_t needed =
        NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES;
    if ((attr->fieldMask & needed) != needed || attr->entries == NULL || attr->numEntries == 0)
        return false;
    const bool packed = (attr->fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT) != 0;
    const bool sized = (attr->fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE) != 0;
    const bool is_union = (attr->fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE) != 0 &&
                          attr->type >= NVTX_PAYLOAD_SCHEMA_TYPE_UNION;
    dl_payload_layout made = {.count = attr->numEntries < DL_PAYLOAD_ENTRIES_MAX
                                           ? attr->numEntries
                                           : DL_PAYLOAD_ENTRIES_MAX};
    /* The members of a union overlap; they are not decoded. */
    if (is_union) made.count = 0;
    made.entries = calloc(made.count > 0 ? made.count : 1, sizeof *made.entries);
    if (made.entries == NULL) return false;
    if (!make_entries(&made, attr, packed ? attr->packAlign : 0, find, user)) {
        dl_payload_layout_free(&made);
        return false;
    }
    if (is_union) made.as_type = (dl_payload_type){0};
    if (sized && attr->payloadStaticSize <= OFFSET_MAX)
        made.as_type.bytes = attr->payloadStaticSize;
    *layout = made;
    return true;
}

void dl_payload_layout_free(dl_payload_layout *layout)
{
    for (size_t i = 0; i < layout->count; i++)
        free(layout->entries[i].name);
    free(layout->entries);
    *layout = (dl_payload_layout){0};
}

bool dl_payload_enum_type(dl_payload_type *type, const nvtxPayloadEnumAttr_t *attr)
{
    if ((attr->fieldMask & NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE) == 0) return false;
    const size_t bytes = attr->sizeOfEnum;
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) return false;
    *type = (dl_payload_type){bytes, bytes, DL_PAYLOAD_UNSIGNED};
    return true;
}

int dl_payload_find(const dl_payload_layout *layout, const char *name)
{
    for (size_t i = 0; i < layout->count; i++)
        if (strcmp(layout->entries[i].name, name) == 0) return (int)i;
    return -1;
}

int dl_payload_find_message(const dl_payload_layout *layout)
{
    for (size_t i = 0; i < layout->count; i++)
        if (layout->entries[i].message) return (int)i;
    return -1;
}

/* Widens the integer of 1, 2, 4 or 8 bytes at `from`, which need not be aligned. */
static bool read_integer(const void *from, uint32_t bytes, bool with_sign, uint64_t *value)
{
    uint64_t raw = 0;
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) return false;
    memcpy(&raw, from, bytes); /* the low bytes: all machines with CUDA are little-endian */
    const unsigned shift = 64 - 8 * bytes;
    if (with_sign && (raw >> (8 * bytes - 1)) != 0 && shift > 0) raw |= UINT64_MAX << (64 - shift);
    *value = raw;
    return true;
}

bool dl_payload_read(const dl_payload_layout *layout, int index, const nvtxPayloadData_t *payload,
                     uint64_t *value)
{
    if (index < 0 || (size_t)index >= layout->count || payload->payload == NULL) return false;
    const dl_payload_entry *entry = &layout->entries[index];
    const size_t size = payload->size == SIZE_MAX ? layout->as_type.bytes : payload->size;
    if (entry->bytes == 0 || entry->form == DL_PAYLOAD_OTHER || entry->offset > size ||
        entry->bytes > size - entry->offset)
        return false;
    return read_integer((const char *)payload->payload + entry->offset, entry->bytes,
                        entry->form == DL_PAYLOAD_SIGNED, value);
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "read_integer takes the low bytes first");
