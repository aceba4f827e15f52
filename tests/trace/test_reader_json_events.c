#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/trace/text_parts.h"
#include "trace/readers/json_events.h"

/* Delivered data as text: "name|ts|stream|grid;" per event, "key=value;" per member. */
typedef struct heard {
    char *text;
    size_t events;
    uint64_t name_bytes;
} heard;

static const char *const keys[] = {"name", "ts", "args/stream", "args/grid"};

static void hear(heard *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void hear(heard *h, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    DL_AUTOFREE char *more = dl_vformat(format, args);
    va_end(args);
    char *all = dl_format("%s%s", h->text != NULL ? h->text : "", more);
    free(h->text);
    h->text = all;
}

static void on_event(void *context, const dl_json_text *values)
{
    heard *h = context;
    h->events++;
    h->name_bytes += values[0].bytes;
    if (h->events > 100) return; /* long texts are only counted */
    for (int i = 0; i < 4; i++) {
        int bytes = values[i].at != NULL && values[i].bytes < 100 ? (int)values[i].bytes : 0;
        hear(h, "%.*s%s", bytes, values[i].at != NULL ? values[i].at : "", i < 3 ? "|" : ";");
    }
}

static void on_member(void *context, dl_json_text key, dl_json_text value)
{
    hear(context, "%.*s=%.*s;", (int)key.bytes, key.at, (int)value.bytes, value.at);
}

static dl_status hear_text(heard *h, text_parts *parts, dl_json_events_result *result,
                           dl_error *err)
{
    const dl_json_events_spec spec = {
        .keys = keys, .key_count = 4, .event = on_event, .member = on_member, .context = h};
    return dl_json_events_read(&spec, read_part, parts, result, err);
}

static const char whole[] =
    "\n{ \"schemaVersion\": 1, \"deep\": {\"traceEvents\": [1]}, \"list\": [\"a,\", {}],\n"
    " \"traceEvents\" : [\n"
    "  {\"ph\":\"X\", \"name\": \"a \\\"}{\\\" b\", \"ts\": 12.5, \"args\": {\"skipped\": "
    "[{\"stream\": 9}],"
    " \"stream\": 7, \"grid\": [512, 1, 1]}},\n"
    "  {\"name\":\"second\",\"args\":null,\"ts\":1},{}\n"
    " ], \"base\": 17, \"trace\": \"t]}\" }\n";

static const char whole_heard[] =
    "schemaVersion=1;deep={\"traceEvents\": [1]};list=[\"a,\", {}];"
    "\"a \\\"}{\\\" b\"|12.5|7|[512, 1, 1];\"second\"|1||;|||;base=17;trace=\"t]}\";";

static void events_and_members_are_delivered(void **state DL_UNUSED)
{
    for (size_t part = 1; part < 300; part = part * 2 + 1) {
        heard h = {0};
        text_parts parts = parts_of(whole, part);
        dl_json_events_result result;
        dl_error err = {0};
        assert_int_equal(hear_text(&h, &parts, &result, &err), DL_OK);
        assert_string_equal(h.text, whole_heard);
        assert_true(result.complete);
        assert_int_equal(result.events, 3);
        assert_int_equal(result.bytes, strlen(whole));
        assert_int_equal(result.ignored, 0);
        free(h.text);
    }
}

/* Truncated after any byte: no failure once the events have begun, the delivered data are a prefix
 * of those of the whole text, and only the whole text is complete. */
static void a_cut_text_gives_its_whole_events(void **state DL_UNUSED)
{
    size_t begin = (size_t)(strstr(whole, "[\n  {") - whole) + 1, length = strlen(whole) - 1;
    for (size_t bytes = begin; bytes < length; bytes++) {
        heard h = {0};
        text_parts parts = {.text = whole, .bytes = bytes, .part = bytes};
        dl_json_events_result result;
        dl_error err = {0};
        assert_int_equal(hear_text(&h, &parts, &result, &err), DL_OK);
        assert_int_equal(strncmp(whole_heard, h.text, strlen(h.text)), 0);
        assert_false(result.complete);
        free(h.text);
    }
    heard h = {0};
    text_parts parts = {.text = whole, .bytes = length, .part = length};
    dl_json_events_result result;
    dl_error err = {0};
    assert_int_equal(hear_text(&h, &parts, &result, &err), DL_OK);
    assert_true(result.complete);
    free(h.text);
}

static void an_array_of_events_is_a_trace(void **state DL_UNUSED)
{
    static const char *const texts[] = {"[]", " [ ] ", "[{\"name\":\"a\"}]", "[{\"name\":\"a\"},]",
                                        "\xEF\xBB\xBF [{\"name\":\"a\"}]"};
    for (size_t i = 0; i < 5; i++) {
        heard h = {0};
        text_parts parts = parts_of(texts[i], 100);
        dl_json_events_result result;
        dl_error err = {0};
        assert_int_equal(hear_text(&h, &parts, &result, &err), DL_OK);
        assert_true(result.complete);
        assert_int_equal(h.events, i < 2 ? 0 : 1);
        free(h.text);
    }
}

/* 40,000 events of 100 bytes take four windows; every third name has 3 KB. */
static void events_across_windows_are_whole(void **state DL_UNUSED)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    uint64_t name_bytes = 0;
    fprintf(out, "{\"traceEvents\": [");
    for (int i = 0; i < 40000; i++) {
        int length = i % 3 == 0 ? 300 : 5;
        fprintf(out, "%s\n{\"name\": \"\\\\%0*d\", \"ts\": %d, \"args\": {\"stream\": %d}}",
                i > 0 ? "," : "", length, i, i, i % 7);
        name_bytes += (uint64_t)length + 4;
    }
    fprintf(out, "]}");
    fclose(out);
    heard h = {0};
    text_parts parts = {.text = text, .bytes = bytes, .part = 70001};
    dl_json_events_result result;
    dl_error err = {0};
    assert_int_equal(hear_text(&h, &parts, &result, &err), DL_OK);
    assert_true(result.complete);
    assert_int_equal(h.events, 40000);
    assert_int_equal(h.name_bytes, name_bytes);
    free(h.text);
    free(text);
}

/* An event longer than a window enlarges the window; one longer than 8 MiB is an error. */
static void long_events_have_a_limit(void **state DL_UNUSED)
{
    static const size_t lengths[] = {3U << 20, 9U << 20};
    for (int i = 0; i < 2; i++) {
        DL_AUTOFREE char *text = dl_calloc(lengths[i] + 100, 1, "long event");
        memset(text, 'x', lengths[i]);
        memcpy(text, "[{\"name\":\"", 10);
        strcpy(text + lengths[i], "\"}]");
        heard h = {0};
        text_parts parts = parts_of(text, 1 << 20);
        dl_json_events_result result;
        dl_error err = {0};
        assert_int_equal(hear_text(&h, &parts, &result, &err), i == 0 ? DL_OK : DL_ERR_FORMAT);
        assert_int_equal(h.events, i == 0 ? 1 : 0);
        if (i == 1) assert_contains(err.text, "longer than 8 MiB");
        free(h.text);
    }
}

static void malformed_texts_are_refused_with_the_place(void **state DL_UNUSED)
{
    static const struct {
        const char *text, *error;
        size_t events;
    } cases[] = {
        {"[{\"name\":\"a\"}, {\"name\":\"b\" \"ts\":1}, {}]", "byte 15: malformed event", 1},
        {"[{\"name\":\"a\"} {\"name\":\"b\"}]", "byte 1: malformed event, or no comma", 0},
        {"[{\"name\":\"a\"}, 17]", "byte 15: malformed event", 1},
        {"{\"traceEvents\": {}}", "byte 16: traceEvents is no array", 0},
        {"{\"other\": []}", "byte 0: is no Chrome trace: there are no traceEvents", 0},
        {"hello", "byte 0: is no JSON array or object", 0},
        {"", "byte 0: is no JSON array or object", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        heard h = {0};
        text_parts parts = parts_of(cases[i].text, 100);
        dl_json_events_result result;
        dl_error err = {0};
        assert_int_equal(hear_text(&h, &parts, &result, &err), DL_ERR_FORMAT);
        assert_contains(err.text, cases[i].error);
        assert_int_equal(h.events, cases[i].events);
        free(h.text);
    }
}

static void forbidden_bytes_are_replaced_and_counted(void **state DL_UNUSED)
{
    heard h = {0};
    text_parts parts = parts_of("[{\"name\":\"a\x01"
                                "b\xFF"
                                "c\xC3\xA9\"},{\"name\":\"d\"}]",
                                100);
    dl_json_events_result result;
    dl_error err = {0};
    assert_int_equal(hear_text(&h, &parts, &result, &err), DL_OK);
    assert_string_equal(h.text, "\"a b?c\xC3\xA9\"|||;\"d\"|||;");
    assert_int_equal(result.replaced, 2);
    free(h.text);
}

static void bytes_behind_the_end_are_counted(void **state DL_UNUSED)
{
    heard h = {0};
    text_parts parts = parts_of("{\"traceEvents\": [{}], \"a\": 1} more", 100);
    dl_json_events_result result;
    dl_error err = {0};
    assert_int_equal(hear_text(&h, &parts, &result, &err), DL_OK);
    assert_string_equal(h.text, "|||;a=1;");
    assert_true(result.complete);
    assert_int_equal(result.ignored, 4);
    free(h.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_and_members_are_delivered),
        cmocka_unit_test(a_cut_text_gives_its_whole_events),
        cmocka_unit_test(an_array_of_events_is_a_trace),
        cmocka_unit_test(events_across_windows_are_whole),
        cmocka_unit_test(long_events_have_a_limit),
        cmocka_unit_test(malformed_texts_are_refused_with_the_place),
        cmocka_unit_test(forbidden_bytes_are_replaced_and_counted),
        cmocka_unit_test(bytes_behind_the_end_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
