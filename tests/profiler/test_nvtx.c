/* The handlers with the real headers of NVTX, which find them as a statically linked tool. */
#include "tests/check.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <nvtx3/nvToolsExtPayload.h>

#include "tests/doubles/nvtx_capture.h"

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table);
int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module);

/* Sets the functions that NVTX calls if no file is named in the environment. */
static void link_in(void)
{
    unsetenv("NVTX_INJECTION64_PATH");
    InitializeInjectionNvtx2_fnptr = InitializeInjectionNvtx2;
    InitializeInjectionNvtxExtension_fnptr = InitializeInjectionNvtxExtension;
}

static nvtxEventAttributes_t registered(nvtxStringHandle_t handle)
{
    return (nvtxEventAttributes_t){.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
                                   .message.registered = handle};
}

static nvtxEventAttributes_t ascii(const char *text)
{
    return (nvtxEventAttributes_t){.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                   .message.ascii = text};
}

static int clear(void **state DL_UNUSED)
{
    seen_clear();
    return 0;
}

static void test_push_pop(void **state DL_UNUSED)
{
    assert_int_equal(nvtxRangePushA("outer"), 0);
    assert_int_equal(nvtxRangePushA("inner"), 1);
    assert_int_equal(nvtxRangePop(), 1);
    assert_int_equal(nvtxRangePop(), 0);
    assert_int_equal(seen_count(), 2);
    const dl_activity inner = seen_at(0), outer = seen_at(1);
    assert_int_equal(inner.kind, DL_ACTIVITY_RANGE);
    assert_string_equal(seen_text(inner.name), "inner");
    assert_string_equal(seen_text(outer.name), "outer");
    assert_int_equal(outer.detail, 0);
    assert_int_equal(outer.thread, gettid());
    assert_true(outer.start_ns <= inner.start_ns);
    assert_true(inner.start_ns + inner.duration_ns <= outer.start_ns + outer.duration_ns);
}

static void test_unbalanced(void **state DL_UNUSED)
{
    assert_int_equal(nvtxRangePop(), NVTX_NO_PUSH_POP_TRACKING);
    assert_int_equal(nvtxRangePushA("a"), 0);
    assert_int_equal(nvtxRangePop(), 0);
    assert_int_equal(nvtxRangePop(), NVTX_NO_PUSH_POP_TRACKING);
    nvtxRangeEnd(0);
    nvtxRangeEnd(UINT64_MAX);
    nvtxRangeEnd(12345);
    nvtxRangePushA(NULL);
    nvtxRangePushEx(NULL);
    nvtxRangePop();
    assert_int_equal(seen_count(), 2);
    assert_int_equal(seen_at(1).name, 0);
}

/* More ranges than are kept: the pops of lost ranges end no other range. */
static void test_deep(void **state DL_UNUSED)
{
    const int depth = 5000; /* above DL_NVTX_DEPTH_MAX */
    for (int i = 0; i < depth; i++)
        nvtxRangePushA("deep");
    for (int i = 0; i < depth; i++)
        nvtxRangePop();
    assert_int_equal(seen_count(), 4096);
    assert_int_equal(nvtxRangePushA("again"), 0);
    nvtxRangePop();
}

/* Ranges of two domains overlap; each pop ends the innermost range of its domain. */
static void test_domains(void **state DL_UNUSED)
{
    nvtxDomainHandle_t one = nvtxDomainCreateA("one"), two = nvtxDomainCreateW(L"two");
    const nvtxEventAttributes_t a = ascii("a"), b = ascii("b"), c = ascii("c");
    assert_int_equal(nvtxDomainRangePushEx(one, &a), 0);
    assert_int_equal(nvtxDomainRangePushEx(two, &b), 0);
    assert_int_equal(nvtxDomainRangePushEx(one, &c), 1);
    assert_int_equal(nvtxDomainRangePop(two), 0);
    assert_int_equal(nvtxDomainRangePop(two), NVTX_NO_PUSH_POP_TRACKING);
    assert_int_equal(nvtxDomainRangePop(one), 1);
    assert_int_equal(nvtxDomainRangePop(one), 0);
    assert_int_equal(seen_count(), 3);
    assert_string_equal(seen_text(seen_at(0).name), "b");
    assert_string_equal(seen_text(seen_at(0).detail), "two");
    assert_string_equal(seen_text(seen_at(1).name), "c");
    assert_string_equal(seen_text(seen_at(2).name), "a");
    assert_string_equal(seen_text(seen_at(2).detail), "one");
    nvtxDomainMarkEx(one, &a);
    assert_string_equal(seen_text(seen_find(DL_ACTIVITY_MARK, "a").detail), "one");

    /* A domain created again reuses the destroyed one; two existing domains of one name stay
     * separate. */
    nvtxDomainHandle_t twin = nvtxDomainCreateA("one");
    assert_ptr_not_equal(twin, one);
    nvtxDomainDestroy(one);
    assert_ptr_equal(nvtxDomainCreateA("one"), one);
    nvtxDomainDestroy(one);
    nvtxDomainDestroy(two);
    nvtxDomainDestroy(twin);
    nvtxDomainRangePushEx(two, &a); /* a program's error that must do no harm */
    nvtxDomainRangePop(two);
}

static void test_texts(void **state DL_UNUSED)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("texts");
    nvtxEventAttributes_t event = registered(nvtxDomainRegisterStringA(domain, "kept"));
    nvtxDomainMarkEx(domain, &event);
    event = registered(nvtxDomainRegisterStringW(domain, L"wide kept"));
    nvtxDomainMarkEx(domain, &event);
    event = registered(NULL);
    nvtxDomainMarkEx(domain, &event);
    assert_string_equal(seen_text(seen_at(0).name), "kept");
    assert_string_equal(seen_text(seen_at(1).name), "wide kept");
    assert_int_equal(seen_at(2).name, 0);
    /* One to four bytes of UTF-8; an invalid code point; half of a surrogate pair. */
    const wchar_t wide[] = {L'z', 0xe9, 0x20ac, 0x1f600, 0x110000, 0xd800, 0};
    nvtxMarkW(wide);
    assert_string_equal(seen_text(seen_at(3).name), "z\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"
                                                    "\xef\xbf\xbd\xef\xbf\xbd");
    nvtxRangePushW(L"wide");
    nvtxRangePop();
    seen_find(DL_ACTIVITY_RANGE, "wide");
    nvtxMarkA("plain");
    seen_find(DL_ACTIVITY_MARK, "plain");
    nvtxDomainDestroy(domain);
}

/* One buffer with changing texts, more than the thread's cache has slots, each twice. */
static void test_changing_texts(void **state DL_UNUSED)
{
    char text[2048];
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof text, "step %d", i / 2);
        nvtxMarkA(text);
        assert_string_equal(seen_text(seen_at((size_t)i).name), text);
    }
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0'; /* longer than cached texts */
    nvtxMarkA(text);
    assert_string_equal(seen_text(seen_at(1000).name), text);
}

static void *end_started(void *id)
{
    nvtxRangeEnd(*(nvtxRangeId_t *)id);
    return NULL;
}

static void test_start_end(void **state DL_UNUSED)
{
    nvtxRangeId_t first = nvtxRangeStartA("first");
    const nvtxRangeId_t second = nvtxRangeStartW(L"second");
    assert_true(first != 0 && second != 0 && first != second);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end_started, &first), 0);
    pthread_join(thread, NULL);
    assert_int_equal(seen_count(), 1);
    assert_int_equal(seen_find(DL_ACTIVITY_RANGE, "first").thread, gettid());
    nvtxRangeEnd(first);
    const nvtxRangeId_t third = nvtxRangeStartA("third"); /* reuses the slot of the first range */
    assert_true(third != first);
    nvtxRangeEnd(first);
    assert_int_equal(seen_count(), 1);
    nvtxRangeEnd(third);
    nvtxRangeEnd(second);
    assert_int_equal(seen_count(), 3);
}

static void test_names(void **state DL_UNUSED)
{
    nvtxNameOsThreadA(17, "loader");
    nvtxNameOsThreadW(18, L"writer");
    assert_string_equal(seen_meta("thread.17"), "loader");
    assert_string_equal(seen_meta("thread.18"), "writer");
}

/* Domain "NCCL" as used by NCCL 2.28.9: registered names, static schemas, payload with the pop. */
typedef struct call_payload {
    uint64_t comm;
    size_t bytes;
    int root;
} call_payload;
typedef struct comm_payload {
    uint64_t comm;
    int ranks, rank, device;
} comm_payload;

#define SCHEMA(entry_list, number)                                                                 \
    {                                                                                              \
        .fieldMask =                                                                               \
            NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |         \
            NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID, \
        .type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, .entries = (entry_list),                          \
        .numEntries = sizeof(entry_list) / sizeof(entry_list)[0], .schemaId = (number)             \
    }

static void test_nccl(void **state DL_UNUSED)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("NCCL");
    const nvtxPayloadSchemaEntry_t call_entries[] = {
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT64, .name = "NCCL communicator ID"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_SIZE, .name = "Message size [bytes]", .offset = 8},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT, .name = "Root", .offset = 16}};
    const nvtxPayloadSchemaEntry_t comm_entries[] = {
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT64, .name = "NCCL communicator ID"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT, .name = "No. of ranks", .offset = 8},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT, .name = "Rank", .offset = 12},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT, .name = "CUDA device", .offset = 16}};
    const nvtxPayloadSchemaAttr_t call_schema = SCHEMA(call_entries, 0x1000106);
    const nvtxPayloadSchemaAttr_t comm_schema = SCHEMA(comm_entries, 0x1000100);
    assert_int_equal(nvtxPayloadSchemaRegister(domain, &call_schema), 0x1000106);
    assert_int_equal(nvtxPayloadSchemaRegister(domain, &comm_schema), 0x1000100);

    nvtxEventAttributes_t event = registered(nvtxDomainRegisterStringA(domain, "ncclCommInitRank"));
    const comm_payload comm = {0x1234, 4, 2, 1};
    const nvtxPayloadData_t comm_data = {0x1000100, sizeof comm, &comm};
    nvtxDomainRangePushEx(domain, &event);
    assert_int_equal(nvtxRangePopPayload(domain, &comm_data, 1), 0);
    assert_string_equal(seen_text(seen_find(DL_ACTIVITY_RANGE, "ncclCommInitRank").detail), "NCCL");
    const dl_activity made = seen_find(DL_ACTIVITY_COMM, "");
    assert_int_equal(made.object, 0x1234);
    assert_int_equal(made.peer, 2);
    assert_int_equal(made.count, 4);

    event = registered(nvtxDomainRegisterStringA(domain, "ncclBroadcast"));
    const call_payload call = {0x1234, 1000, 3};
    const nvtxPayloadData_t call_data = {0x1000106, sizeof call, &call};
    event.payloadType = NVTX_PAYLOAD_TYPE_EXT;
    event.payload.ullValue = (uintptr_t)&call_data;
    event.reserved0 = 1;
    nvtxDomainRangePushEx(domain, &event);
    nvtxDomainRangePop(domain);
    const dl_activity broadcast = seen_find(DL_ACTIVITY_COLLECTIVE, "Broadcast");
    assert_int_equal(broadcast.object, 0x1234);
    assert_int_equal(broadcast.bytes, 1000);
    assert_int_equal(broadcast.peer, 3);
    assert_int_equal(broadcast.thread, gettid());

    /* An unregistered schema, and no payload. */
    const nvtxPayloadData_t unknown = {0x1fff, sizeof call, &call};
    event = ascii("ncclSend");
    event.payloadType = NVTX_PAYLOAD_TYPE_EXT;
    event.payload.ullValue = (uintptr_t)&unknown;
    event.reserved0 = 1;
    nvtxDomainRangePushEx(domain, &event);
    assert_int_equal(nvtxRangePopPayload(domain, NULL, 3), 0);
    assert_int_equal(seen_find(DL_ACTIVITY_COLLECTIVE, "Send").bytes, 0);
    assert_int_equal(seen_count_kind(DL_ACTIVITY_COMM), 1);
    /* In another domain the same name is an ordinary range. */
    nvtxRangePushA("ncclSend");
    nvtxRangePop();
    seen_find(DL_ACTIVITY_RANGE, "ncclSend");
    nvtxDomainDestroy(domain);
}

/* Events with payloads but without attributes: their text is that of an entry, or the schema's
 * name. */
static void test_payload_events(void **state DL_UNUSED)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("payloads");
    assert_int_equal(nvtxDomainIsEnabled(domain), 1);
    const nvtxPayloadEnum_t values[] = {{.name = "red", .value = 1}};
    const nvtxPayloadEnumAttr_t color = {.fieldMask = NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES |
                                                      NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES |
                                                      NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE,
                                         .entries = values,
                                         .numEntries = 1,
                                         .sizeOfEnum = 2};
    const uint64_t color_id = nvtxPayloadEnumRegister(domain, &color);
    assert_true(color_id >= NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START);
    const nvtxPayloadSchemaEntry_t text_entries[] = {
        {.type = color_id, .name = "color"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, .flags = NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE}};
    const nvtxPayloadSchemaEntry_t handle_entries[] = {
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE,
         .flags = NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE}};
    const nvtxPayloadSchemaAttr_t text_schema = SCHEMA(text_entries, 0x1000001);
    nvtxPayloadSchemaAttr_t handle_schema = SCHEMA(handle_entries, 0);
    assert_int_equal(nvtxPayloadSchemaRegister(domain, &text_schema), 0x1000001);
    const uint64_t handle_id = nvtxPayloadSchemaRegister(domain, &handle_schema);
    assert_true(handle_id > color_id);
    assert_int_equal(nvtxPayloadSchemaRegister(domain, NULL), 0);

    const struct {
        uint16_t color;
        const char *text;
    } with_text = {1, "from text"};
    const nvtxPayloadData_t text_data = {0x1000001, sizeof with_text, &with_text};
    nvtxStringHandle_t handle = nvtxDomainRegisterStringA(domain, "from handle");
    const nvtxPayloadData_t handle_data = {handle_id, sizeof handle, &handle};
    assert_int_equal(nvtxRangePushPayload(domain, &text_data, 1), 0);
    nvtxMarkPayload(domain, &handle_data, 1);
    assert_int_equal(nvtxRangePopPayload(domain, NULL, 0), 0);
    seen_find(DL_ACTIVITY_MARK, "from handle");
    seen_find(DL_ACTIVITY_RANGE, "from text");
    const nvtxRangeId_t id = nvtxRangeStartPayload(domain, &handle_data, 1);
    nvtxRangeEndPayload(domain, id, &text_data, 1);
    seen_find(DL_ACTIVITY_RANGE, "from handle");

    const nvtxPayloadSchemaEntry_t plain_entries[] = {{.type = NVTX_PAYLOAD_ENTRY_TYPE_INT}};
    nvtxPayloadSchemaAttr_t plain = SCHEMA(plain_entries, 0x1000002);
    plain.fieldMask |= NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME;
    plain.name = "schema's name";
    nvtxPayloadSchemaRegister(domain, &plain);
    const nvtxPayloadData_t plain_data = {0x1000002, SIZE_MAX, NULL};
    nvtxMarkPayload(domain, &plain_data, 1);
    seen_find(DL_ACTIVITY_MARK, "schema's name");
    nvtxDomainDestroy(domain);
}

/* At most DL_NVTX_SCHEMAS_MAX schemas per domain are kept, and these remain known. */
static void test_many_schemas(void **state DL_UNUSED)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("many");
    const nvtxPayloadSchemaEntry_t entries[] = {{.type = NVTX_PAYLOAD_ENTRY_TYPE_INT}};
    const nvtxPayloadSchemaAttr_t schema = SCHEMA(entries, 0x1000007);
    int kept = 0;
    for (int i = 0; i < 5000; i++)
        kept += nvtxPayloadSchemaRegister(domain, &schema) == 0x1000007;
    assert_int_equal(kept, 4096);
    nvtxDomainDestroy(domain);
}

static void *leave_open(void *unused DL_UNUSED)
{
    nvtxRangePushA("left open outer");
    nvtxRangePushA("left open inner");
    return NULL;
}

static void test_end_of_thread(void **state DL_UNUSED)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, leave_open, NULL), 0);
    pthread_join(thread, NULL);
    assert_int_equal(seen_count(), 2);
    assert_string_equal(seen_text(seen_at(0).name), "left open inner");
    assert_string_equal(seen_text(seen_at(1).name), "left open outer");
}

#define STORM_THREADS 6
#define STORM_ROUNDS 2000
static nvtxDomainHandle_t storm_domain;

static void *storm(void *name)
{
    const nvtxEventAttributes_t event = ascii(name);
    for (int i = 0; i < STORM_ROUNDS; i++) {
        char text[32];
        snprintf(text, sizeof text, "storm %d", i % 50);
        const nvtxRangeId_t id = nvtxRangeStartA(text);
        nvtxDomainRangePushEx(storm_domain, &event);
        nvtxRangePushA(text);
        nvtxDomainRangePop(storm_domain);
        nvtxRangePop();
        nvtxRangeEnd(id);
        if (i % 100 == 0) nvtxDomainDestroy(nvtxDomainCreateA(text));
    }
    return NULL;
}

static void test_threads(void **state DL_UNUSED)
{
    storm_domain = nvtxDomainCreateA("storm");
    pthread_t threads[STORM_THREADS];
    for (int i = 0; i < STORM_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, storm, (void *)"shared"), 0);
    for (int i = 0; i < STORM_THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(seen_count(), 3 * STORM_THREADS * STORM_ROUNDS);
    nvtxDomainDestroy(storm_domain);
}

static void test_inactive(void **state DL_UNUSED)
{
    seen_set_active(false);
    assert_int_equal(nvtxRangePushA("a"), NVTX_NO_PUSH_POP_TRACKING);
    assert_int_equal(nvtxRangePop(), NVTX_NO_PUSH_POP_TRACKING);
    assert_int_equal(nvtxRangeStartA("a"), 0);
    nvtxRangeEnd(1);
    nvtxMarkA("a");
    nvtxNameOsThreadA(1, "a");
    assert_null(nvtxDomainCreateA("a"));
    assert_int_equal(nvtxDomainIsEnabled(NULL), 0);
    assert_int_equal(InitializeInjectionNvtx2(NULL), 0);
    seen_set_active(true);
    assert_int_equal(seen_count(), 0);
    assert_null(seen_meta("thread.1"));
}

/* The extension is accepted by module and version. */
static void test_modules(void **state DL_UNUSED)
{
    intptr_t slots[3] = {0};
    nvtxExtModuleSegment_t segment = {.slotCount = 2, .functionSlots = slots};
    nvtxExtModuleInfo_t module = {
        .moduleId = 1, .compatId = 0x0104, .segmentsCount = 1, .segments = &segment};
    assert_int_equal(InitializeInjectionNvtxExtension(&module), 0);
    module.moduleId = NVTX_EXT_PAYLOAD_MODULEID;
    module.compatId = 0x0102;
    assert_int_equal(InitializeInjectionNvtxExtension(&module), 0);
    assert_int_equal(slots[0], 0);
    module.compatId = 0x0103;
    assert_int_equal(InitializeInjectionNvtxExtension(&module), 1);
    assert_true(slots[0] != 0 && slots[1] != 0);
    assert_int_equal(slots[2], 0);
}

static sem_t pushed, may_end;

static void *hold_open(void *unused DL_UNUSED)
{
    nvtxRangePushA("open elsewhere");
    sem_post(&pushed);
    sem_wait(&may_end);
    nvtxRangePop();
    return NULL;
}

/* Ranges still open when the recording ends are recorded up to that time, and later ones are not.
 * This is the last test: recording cannot be resumed. */
static void test_open_at_end(void **state DL_UNUSED)
{
    sem_init(&pushed, 0, 0);
    sem_init(&may_end, 0, 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, hold_open, NULL), 0);
    sem_wait(&pushed);
    const nvtxRangeId_t started = nvtxRangeStartA("open started");
    nvtxRangePushA("open outer");
    nvtxRangePushA("open inner");
    usleep(2000);
    seen_end();
    assert_int_equal(seen_count(), 4);
    seen_find(DL_ACTIVITY_RANGE, "open outer");
    seen_find(DL_ACTIVITY_RANGE, "open inner");
    seen_find(DL_ACTIVITY_RANGE, "open started");
    assert_true(seen_find(DL_ACTIVITY_RANGE, "open elsewhere").duration_ns >= 2000000);
    sem_post(&may_end);
    pthread_join(thread, NULL);
    nvtxRangePop();
    nvtxRangeEnd(started);
    nvtxRangePushA("too late");
    assert_int_equal(seen_count(), 4);
}

int main(void)
{
    link_in();
#define TEST(function) cmocka_unit_test_setup(function, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_push_pop),       TEST(test_unbalanced),   TEST(test_deep),
        TEST(test_domains),        TEST(test_texts),        TEST(test_changing_texts),
        TEST(test_start_end),      TEST(test_names),        TEST(test_nccl),
        TEST(test_payload_events), TEST(test_many_schemas), TEST(test_end_of_thread),
        TEST(test_threads),        TEST(test_inactive),     TEST(test_modules),
        TEST(test_open_at_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
