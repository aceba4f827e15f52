// The part of a browser's document that the scripts of pages use; children must be texts or
// elements.
const assert = require("assert");
const vm = require("vm");

// The members of an element that the scripts use.
class Element {
    constructor(tag) {
        Object.assign(this, { tag, children: [], attributes: {}, listeners: {}, hidden: false, disabled: false, text: "", own: undefined });
    }
    get textContent() { return this.text + this.children.map(child => typeof child === "string" ? child : child.textContent).join(""); }
    set textContent(text) { this.children = []; this.text = String(text); }
    get value() { return this.own ?? (this.tag === "select" ? this.children[0].attributes.value : ""); }
    set value(value) { this.own = String(value); }
    setAttribute(name, value) {
        this.attributes[name] = String(value);
        if (name === "value" && this.tag === "input") this.own = String(value);
        if (name === "disabled") this.disabled = true;
    }
    append(...children) {
        assert.ok(children.every(child => typeof child === "string" || child instanceof Element), "only text and elements are shown");
        this.children.push(...children);
    }
    replaceChildren(...children) { this.text = ""; this.children = []; this.append(...children); }
    addEventListener(event, run) { (this.listeners[event] ||= []).push(run); }
    dispatchEvent(event) { (this.listeners[event.type] || []).forEach(run => run(event)); }
    all(test) {
        return this.children.flatMap(child => typeof child === "string" ? [] : [...(test(child) ? [child] : []), ...child.all(test)]);
    }
    find(test) {
        for (const child of this.children) {
            if (typeof child === "string") continue;
            const found = test(child) ? child : child.find(test);
            if (found) return found;
        }
        return null;
    }
}

// The page's script elements: [{type, id, text}].
function scriptsOf(html) {
    return [...html.matchAll(/<script([^>]*)>([\s\S]*?)<\/script>/gi)].map(([, attributes, text]) => ({
        type: (/type="([^"]*)"/.exec(attributes) || [])[1], id: (/id="([^"]*)"/.exec(attributes) || [])[1], text }));
}

// Runs the scripts of a page, except that of its tables, in a browser's document; returns {byId,
// head, blobs}. change(data) may modify the data "live-data" first; globals are additional global
// variables of the scripts.
function runPage(html, { change = () => {}, globals = {} } = {}) {
    const byId = {}, head = new Element("head"), blobs = [];
    for (const id of ["live", "figures", "timeline", "results-link"]) if (html.includes(`id="${id}"`)) byId[id] = new Element("section");
    const document = { head, getElementById: id => byId[id] || null, createElement: tag => new Element(tag), createElementNS: (space, tag) => new Element(tag) };
    const context = vm.createContext({ document, Blob, console, URL: { createObjectURL: blob => (blobs.push(blob), blob) },
        Event: class { constructor(type) { this.type = type; } }, ...globals });
    for (const { id, text } of scriptsOf(html).slice(0, -1)) {
        if (id === undefined) {
            vm.runInContext(text, context);
            continue;
        }
        byId[id] = new Element("script");
        byId[id].textContent = text;
        if (id === "live-data") {
            const data = JSON.parse(text);
            change(data);
            byId[id].textContent = JSON.stringify(data);
        }
    }
    return { byId, head, blobs, context };
}
module.exports = { Element, scriptsOf, runPage };
