#include "trace/readers/json_walk.hpp"

#include <cstring>

extern "C" {
#include "trace/readers/json_events.h"
}

namespace dl_json
{

/* Control characters and bytes that are no UTF-8 become blanks and question marks. Between values
 * the former are blanks anyway. Returns how many were changed, other blanks not counted. */
static size_t replace_forbidden(char *text, size_t bytes)
{
    size_t changed = 0;
    for (size_t i = 0; i < bytes;) {
        auto c = static_cast<uint8_t>(text[i]);
        if (c < 0x20) {
            changed += !is_blank(text[i]);
            text[i++] = ' ';
            continue;
        }
        size_t length = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
        if (length == 1 || (i + length <= bytes && simdjson::validate_utf8(text + i, length))) {
            i += length;
        } else {
            text[i++] = '?';
            changed++;
        }
    }
    return changed;
}

simdjson::error_code start(ondemand::parser &parser, padded_text &text, char close,
                           uint64_t *replaced, ondemand::document &document)
{
    size_t end = text.used;
    bool cleaned = false;
    for (size_t quotes = 0;; end = text.used + quotes) {
        char *at = text.begin();
        memset(at + text.used, '"', quotes);
        at[end] = close;
        memset(at + end + 1, ' ', text.bytes.size() - end - 1);
        auto error = parser.iterate(at, end + 1, text.bytes.size()).get(document);
        if (error == simdjson::UNCLOSED_STRING && quotes < 2) {
            quotes++;
        } else if ((error == simdjson::UTF8_ERROR || error == simdjson::UNESCAPED_CHARS) &&
                   !cleaned) {
            *replaced += replace_forbidden(at, text.used);
            cleaned = true;
        } else {
            return error;
        }
    }
}

bool visit_members(ondemand::parser &parser, padded_text &text, uint64_t *replaced, visitor visit,
                   void *context)
{
    ondemand::document document;
    ondemand::object object;
    bool closed = text.used > 0 && text.begin()[text.used - 1] == '}';
    if (start(parser, text, closed ? ' ' : '}', replaced, document)) return false;
    if (document.get_object().get(object)) return false;
    for (auto field : object) {
        ondemand::raw_json_string key;
        dl_json_text value = {};
        ondemand::value walked;
        if (field.key().get(key) || field.value().get(walked)) return false;
        if (raw_value(walked, &value)) return false;
        const char *at = value.at + value.bytes, *end = text.begin() + text.used;
        while (at < end && is_blank(*at))
            at++;
        if (at >= end || (*at != ',' && *at != '}')) return false;
        visit(context, raw_key(key), value);
    }
    return true;
}

static bool visit_elements(ondemand::parser &parser, padded_text &text, visitor visit,
                           void *context)
{
    ondemand::document document;
    ondemand::array array;
    uint64_t replaced = 0;
    if (start(parser, text, ' ', &replaced, document)) return false;
    if (document.get_array().get(array)) return false;
    for (auto element : array) {
        ondemand::value walked;
        dl_json_text value = {};
        if (element.get(walked) || raw_value(walked, &value)) return false;
        visit(context, {}, value);
    }
    return true;
}

const char *scan(const char *at, const char *end, const char *key, const char **key_begin)
{
    size_t depth = 0, key_bytes = key != nullptr ? strlen(key) : 0;
    for (; at < end; at++) {
        if (*at == '"') {
            const char *from = at++;
            while (at < end && *at != '"')
                at += *at == '\\' ? 2 : 1;
            if (at >= end) return nullptr;
            if (key == nullptr || depth != 1) continue;
            if (static_cast<size_t>(at - from - 1) != key_bytes ||
                memcmp(from + 1, key, key_bytes) != 0)
                continue;
            const char *next = at + 1;
            while (next < end && is_blank(*next))
                next++;
            if (next >= end) return nullptr;
            if (*next != ':') continue;
            *key_begin = from;
            return next + 1;
        }
        if (*at == '{' || *at == '[') depth++;
        if ((*at == '}' || *at == ']') && --depth == 0) return at + 1;
    }
    return nullptr;
}

} // namespace dl_json

bool dl_json_visit(dl_json_text value, dl_json::visitor visit, void *context)
{
    if (value.at == nullptr || value.bytes == 0) return false;
    dl_json::padded_text text(value.at, value.at + value.bytes);
    simdjson::ondemand::parser parser;
    uint64_t replaced = 0;
    if (value.at[0] == '{') return dl_json::visit_members(parser, text, &replaced, visit, context);
    return value.at[0] == '[' && dl_json::visit_elements(parser, text, visit, context);
}
