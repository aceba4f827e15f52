// Controls of a live page: they run the simulator, dlsim as WebAssembly, again with changed settings.
// All output is inserted as text.
"use strict";
(() => {
const { element, make, digits, percent, seconds, gigabytes } = dlscale;
const data = JSON.parse(element("live-data").textContent);
const root = element("live");
const isStudy = data.scenario !== undefined;

document.head.append(make("style", {}, `
#live form { display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: 0.6rem 1.2rem; margin: 0.8rem 0; }
#live fieldset { border: 0; padding: 0; margin: 0; min-width: 0; display: contents; }
#live label { display: block; font-size: 0.9rem; color: var(--soft); }
#live input, #live select, #live button { font: inherit; color: var(--ink); background: var(--paper); border: 1px solid var(--line); border-radius: 4px; padding: 0.25rem 0.4rem; }
#live input[type=range] { padding: 0; flex: 1; min-width: 0; }
#live .pair { display: flex; gap: 0.5rem; align-items: center; }
#live .pair input[type=number] { width: 6.5rem; }
#live .wide { width: 100%; }
#live .answer { font-size: 1.15rem; min-height: 3.4em; }
#live .answer strong { font-size: 1.5rem; }
#live .problem { color: var(--bad); white-space: pre-wrap; }
#live .command .scroll { flex: 1; margin: 0; min-width: 0; }
#live [hidden] { display: none; }
#live td { white-space: nowrap; }
#live .command { display: flex; gap: 0.5rem; align-items: flex-start; margin: 0.6rem 0; }
#live .command code { flex: 1; background: var(--tint); border-radius: 4px; padding: 0.35rem 0.5rem; overflow-wrap: anywhere; font-size: 0.85rem; }
#live .command code span { display: inline-block; max-width: 100%; }
`));

// --- the simulator, in a web worker, so that the page stays responsive while it runs ---

const workerText = `
let factory, compiled;
// Bytes of a text in base 85: five digits, most significant first, for each four bytes, big-endian. A text
// whose length is no multiple of five is completed by the highest digit, and its bytes are cut accordingly.
function decode85(text) {
    const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%.()*+-;,=>?@^_:{|}~";
    const value = new Uint8Array(128), words = new DataView(new ArrayBuffer(4 * Math.ceil(text.length / 5)));
    for (let i = 0; i < digits.length; i++) value[digits.charCodeAt(i)] = i;
    for (let at = 0, i = 0; i < text.length; at += 4) {
        let word = 0;
        for (const end = i + 5; i < end; i++) word = word * 85 + (i < text.length ? value[text.charCodeAt(i)] : 84);
        words.setUint32(at, word);
    }
    return new Uint8Array(words.buffer, 0, Math.floor(text.length * 4 / 5));
}
async function unpack(text) {
    const packed = decode85(text);
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}
async function run(args, files, folder, read) {
    const out = [], error = [];
    const core = await factory({
        instantiateWasm(imports, use) { WebAssembly.instantiate(compiled, imports).then(use); return {}; },
        print: line => out.push(line), printErr: line => error.push(line),
        quit(status, thrown) { throw thrown; },
        preRun: [m => {
            m.ENV.DLSCALE_SHARE = "/share";
            m.FS.mkdirTree(folder);
            m.FS.chdir(folder);
            for (const [name, text] of Object.entries(files)) {
                const path = name.startsWith("/") ? name : folder + "/" + name;
                m.FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
                m.FS.writeFile(path, text);
            }
        }],
    });
    let status;
    try {
        status = core.callMain(args);
    } catch (thrown) {
        if (thrown.name !== "ExitStatus") throw thrown;
        status = thrown.status;
    }
    const text = read && core.FS.analyzePath(folder + "/" + read).exists ? core.FS.readFile(folder + "/" + read, { encoding: "utf8" }) : undefined;
    return { status, out: out.join("\\n"), error: error.join("\\n"), text };
}
onmessage = async ({ data }) => {
    try {
        if (data.glue) {
            const glue = new TextDecoder().decode(await unpack(data.glue));
            factory = new Function(glue + "; return dlsim_core;")();
            compiled = await WebAssembly.compile(await unpack(data.core));
            postMessage({ number: data.number });
        } else {
            postMessage({ number: data.number, ...await run(data.args, data.files, data.folder, data.read) });
        }
    } catch (thrown) {
        postMessage({ number: data.number, failed: String(thrown && thrown.stack || thrown) });
    }
};`;
const workerUrl = URL.createObjectURL(new Blob([workerText], { type: "text/javascript" }));
const stopped = new Error("Stopped.");
const waiting = new Map();
let messages = 0, busy = 0, worker, ready;
function ask(message) {
    return new Promise((resolve, reject) => {
        waiting.set(++messages, { resolve, reject });
        worker.postMessage({ ...message, number: messages });
    });
}

// Starts a worker; `ready` is settled when it can simulate.
function startWorker() {
    worker = new Worker(workerUrl);
    worker.onmessage = ({ data: answer }) => {
        const { resolve, reject } = waiting.get(answer.number);
        waiting.delete(answer.number);
        answer.failed ? reject(new Error(answer.failed)) : resolve(answer);
    };
    worker.onerror = event => rejectAll(new Error(event.message));
    ready = ask({ glue: element("live-glue").textContent, core: element("live-core").textContent });
    ready.catch(() => {}); // simulate() reports it
}

function rejectAll(error) {
    const all = [...waiting.values()];
    waiting.clear();
    all.forEach(({ reject }) => reject(error));
}

// Ends all that the worker does, whose callers get the error `stopped`, and starts a new worker.
function stopWorker() {
    worker.onmessage = worker.onerror = null;
    worker.terminate();
    rejectAll(stopped);
    startWorker();
}

// Runs the simulator, and shows the button Stop meanwhile.
async function simulate(message) {
    busy++;
    stopButton.hidden = false;
    try {
        await ready;
        return await ask({ ...message, files, folder });
    } finally {
        stopButton.hidden = --busy === 0;
    }
}

// A deep folder, so that the scenario's relative file names, including those with "..", resolve as before.
const folder = "/a/b/c/d/e/f/g/h";
const scenarioName = !isStudy || data.scenario.startsWith("(") ? "scenario.ini" : data.scenario;
const files = isStudy ? { ...data.files, [scenarioName]: data.text } : {};
const always = ["--threads", "1", "--long", "--journal", "off", "--quiet"];
async function rowsOf(args) {
    const answer = await simulate({ args: [...args, ...always, "--json", "-"] });
    if (answer.status !== 0 && answer.status !== 3) throw new Error(answer.error || answer.out || "exit " + answer.status);
    return JSON.parse(answer.out);
}

// --- controls ---

const controls = {}; // by name: {value(), set(value), box}
const listed = {};   // inputs' datalists
function add(name, label, input, ...beside) {
    input.id = "live-" + name;
    const box = make("div", {}, make("label", { for: input.id }, label), beside.length > 0 ? make("div", { class: "pair" }, ...beside, input) : input);
    controls[name] = { box, input, value: () => input.value.trim(), set: value => { input.value = value; input.dispatchEvent(new Event("sync")); } };
    return box;
}

// Adds a number input with a slider in powers of two.
function number(name, label, most, start) {
    const input = make("input", { type: "number", min: 1, step: 1, value: start, on: { input: edited } });
    const range = make("input", { type: "range", min: 0, max: Math.log2(most), step: 1, value: Math.log2(start), "aria-label": label + ", in powers of two",
        on: { input() { input.value = 2 ** range.value; edited(); } } });
    const follow = () => { if (input.value > 0) range.value = Math.log2(input.value); };
    input.addEventListener("input", follow);
    input.addEventListener("sync", follow);
    return add(name, label, input, range);
}

function choice(name, label, values) {
    return add(name, label, make("select", { class: "wide", on: { change: edited } }, ...values.map(value =>
        make("option", { value: Array.isArray(value) ? value[0] : value }, Array.isArray(value) ? value[1] : value))));
}

function text(name, label, placeholder, words) {
    const input = make("input", { type: "text", class: "wide", placeholder, autocomplete: "off", spellcheck: "false", on: { change: edited } });
    if (words) {
        listed[name] = make("datalist", { id: "live-list-" + name });
        input.setAttribute("list", "live-list-" + name);
    }
    const box = add(name, label, input);
    if (words) box.append(listed[name]);
    return box;
}

const onGpus = !isStudy || data.gpus;
const perWorker = !isStudy || data.batch_per_worker;
// The text of a study without a file, for use with the command.
function fromFile() {
    if (!isStudy || !data.scenario.startsWith("(")) return [];
    const scenario = make("pre", {}, data.text);
    const box = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "scenario.ini" }, scenario);
    return [make("details", {}, make("summary", {}, "scenario.ini of this command"),
        make("div", { class: "command" }, box, copier("Copy", scenario)))];
}

const form = make("fieldset", { disabled: true },
    ...(isStudy ? [] : [
        choice("workload", "Network", [["", "own numbers"]]),
        number("samples_per_s", "Samples a second of one GPU", 65536, 512),
        text("parameters", "Parameters", "25.6M")]),
    ...(onGpus ? [text("machine", isStudy ? "Machine, in place of the scenario's" : "Machine, or GPUs", isStudy ? "as it is" : "8xh100", true)] : []),
    number("workers", "Workers", 1024, 8),
    number("batch", perWorker ? "Batch of each worker" : "Batch of all workers", 65536, 32),
    choice("mode", "How they exchange", data.modes.map(mode => mode.name)),
    number("interval", "Steps between two averages", 4096, 16),
    text("bound", "Bound on staleness", "none"),
    text("k", "Gradients of an update", "2"),
    ...(onGpus ? [text("layout", "GPUs of a worker", isStudy ? "as it is; pp=2,fsdp=4" : "one; pp=2,fsdp=4"), text("port", "Rate of a node's network port", "as it is; 10Gb/s"),
        text("price", "Price of a node, USD an hour", "as it is")] : []));
const stopButton = make("button", { type: "button", id: "live-stop", on: { click() { again = false; stopWorker(); } } }, "Stop");
stopButton.hidden = true;
const status = make("p", { role: "status", "aria-live": "polite" }, "The simulator starts ...");
const answer = make("p", { class: "answer" });
const chart = make("div", { class: "figures" }), line = make("div", { class: "figures" }), table = make("div");
const command = make("code", { id: "live-command" });
// Shows a command, whose lines break between its words only, not behind "--".
function showCommand(words) {
    command.replaceChildren(...words.flatMap((word, i) => [i > 0 ? " " : "", make("span", {}, quoted(word))]));
}
// Returns a button that copies the text of element `source`, or selects it if the browser forbids copying.
function copier(label, source) {
    const button = make("button", { type: "button", on: { async click() {
        try {
            await navigator.clipboard.writeText(source.textContent);
            button.textContent = "Copied";
        } catch {
            getSelection().selectAllChildren(source);
            button.textContent = "Selected: press Ctrl-C";
        }
        setTimeout(() => { button.textContent = label; }, 2000);
    } } }, label);
    return button;
}
const notes = make("ul", { class: "remarks" });
root.append(make("form", { on: { submit: event => event.preventDefault() } }, form), answer, status, stopButton,
    make("div", { class: "command" }, command, copier("Copy", command)), ...fromFile(), chart,
    make("p", {}, make("button", { type: "button", id: "live-line", on: { click: () => showLine().catch(error => say(error.message, error !== stopped)) } }, "Draw the time line of a step")), line, table,
    make("details", {}, make("summary", {}, "What this rests on"), notes));

const ofModes = ["interval", "bound", "k"];
const takes = name => data.modes.find(mode => mode.name === controls.mode.value())[name];
const hideOthers = () => ofModes.forEach(name => { controls[name].box.hidden = !takes(name); });
const optional = (name, option) => controls[name] && controls[name].value() ? [option(controls[name].value())].flat() : [];

// Returns dlsim's arguments for the values of the controls, with this list of workers.
function settings(workers) {
    return [
        ...(isStudy ? [] : controls.workload.value() ? ["--workload", controls.workload.value()]
            : ["--samples-per-s", controls.samples_per_s.value(), ...optional("parameters", value => ["--parameters", value])]),
        ...optional("machine", value => ["--machine", value]),
        "--workers", workers.join(","),
        perWorker ? "--batch-per-worker" : "--batch", controls.batch.value(),
        "--mode", controls.mode.value(),
        ...(takes("interval") ? ["--interval", controls.interval.value()] : []),
        ...["bound", "k"].filter(takes).flatMap(name => optional(name, value => ["--set", `sync.${name}=${value}`])),
        ...optional("layout", value => ["--layout", value]),
        ...optional("port", value => ["--set", "machine.port_bytes_per_s=" + value]),
        ...optional("price", value => ["--set", "machine.price_usd_per_hour=" + value]),
    ];
}

const quoted = word => /^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";
// Returns 1, 2, 4, ... below the number of workers, and that number; for modes with k gradients per update without those
// of the former that are < k.
function workerCounts() {
    const most = Math.max(1, Math.floor(Number(controls.workers.value()) || 1)), counts = [];
    const least = takes("k") ? Number(controls.k.value()) || 1 : 1;
    for (let n = 1; n < most; n *= 2) if (n >= least) counts.push(n);
    return [...counts, most];
}

// --- output ---

const fractions = { compute_frac: "compute", dispatch_frac: "launches", communication_frac: "communication",
    averaging_frac: "averaging", waiting_frac: "waiting", input_frac: "input" };
const nameOf = row => row.sync + (row.interval ? " every " + row.interval : "");

const shownValue = value => typeof value === "number" ? digits(value) : String(value ?? "");

// `swept`: names of the scenario's swept keys that differ among the rows.
function showAnswer(row, swept) {
    const part = Object.entries(fractions).filter(([key]) => row[key] >= 0.01)
        .map(([key, name]) => name + " " + percent(row[key])).join(", ");
    const staleness = row.staleness_mean > 0 ? ` Gradients are ${digits(row.staleness_mean)} updates old on average.` : "";
    const interval = row.throughput_low_per_s ? ` (95 %: ${digits(row.throughput_low_per_s)} to ${digits(row.throughput_high_per_s)})` : "";
    answer.replaceChildren(make("strong", {}, digits(row.throughput_per_s) + " samples/s"),
        `${interval}${row.speedup ? `, speedup ${digits(row.speedup)}` : ""}, with ${row.workers} worker${row.workers === 1 ? "" : "s"}, ${[nameOf(row), ...swept.map(key => `${key} ${shownValue(row[key])}`)].join(", ")}. ` +
        `A step takes ${seconds(row.step_mean_s)}: ${part}.${staleness}` +
        (row.memory_bytes > 0 ? ` Memory of a GPU: ${gigabytes(row.memory_bytes)}.` : "") +
        (row.usd_per_hour > 0 ? ` ${digits(row.usd_per_hour)} USD an hour, ${digits(row.usd_per_hour / row.throughput_per_s / 3600 * 1e6)} for a million samples.` : ""));
}

const columns = [
    ["workers", row => row.workers], ["exchange", nameOf, true], ["batch", row => row.batch], ["step", row => seconds(row.step_mean_s)],
    ["samples/s", row => digits(row.throughput_per_s)],
    ["95 %", row => row.throughput_low_per_s ? digits(row.throughput_low_per_s) + " to " + digits(row.throughput_high_per_s) : ""],
    ["speedup", row => digits(row.speedup)], ["compute", row => percent(row.compute_frac)],
    ["communication", row => percent(row.communication_frac)], ["staleness", row => row.staleness_mean > 0 ? digits(row.staleness_mean) : ""],
    ["USD/h", row => row.usd_per_hour > 0 ? digits(row.usd_per_hour) : ""]];

function showTable(rows, best, swept) {
    const shown = [...columns.slice(0, 2), ...swept.map(key => [key, row => shownValue(row[key]), true]), ...columns.slice(2)].filter(([, cell]) => rows.some(row => cell(row) !== ""));
    const body = rows.map(row => make("tr", row === best ? { class: "best" } : {}, ...shown.map(([, cell, isText]) =>
        make("td", isText ? {} : { class: "number" }, String(cell(row))))));
    table.replaceChildren(make("div", { class: "scroll table", role: "region", tabindex: 0, "aria-label": "Points" }, make("table", {},
        make("caption", {}, "Simulated in this page"),
        make("thead", {}, make("tr", {}, ...shown.map(([heading, , isText]) => make("th", isText ? { scope: "col" } : { scope: "col", class: "number" }, heading)))),
        make("tbody", {}, ...body))));
}

// For the page's own results shows only the answer and the notes, as the page already has their table and figures.
function show(results, chosen, isOwn) {
    const rows = results.rows.filter(row => row.throughput_per_s > 0);
    const best = chosen || rows.reduce((a, b) => a && a.throughput_per_s >= b.throughput_per_s ? a : b, null);
    const swept = (results.swept || []).map(key => key.column).filter(key => key !== "interval" && rows.some(row => row[key] !== rows[0][key]));
    if (best) showAnswer(best, swept);
    else answer.replaceChildren("No point fits into the memory of its GPUs.");
    line.replaceChildren();
    if (!isOwn) {
        showTable(rows.slice(0, 200), best, swept);
        dlscale.draw(chart, rows);
    }
    notes.replaceChildren(...results.notes.map(note => make("li", {}, note)),
        ...(results.assumed || []).map(a => make("li", {}, `assumed [${a.section}] ${a.key} = ${a.value}${a.low !== undefined && a.low !== a.high ? ` (${digits(a.low)} to ${digits(a.high)})` : ""}: ${a.source}`)));
}

function say(message, isProblem) {
    status.textContent = message;
    status.className = isProblem ? "problem" : "";
}

// --- running ---

const PATIENCE_MS = 500; // a shorter simulation ends sooner than a new worker starts
let running = false, again = false, timer = 0, replacing = 0;
function edited() {
    clearTimeout(timer);
    timer = setTimeout(update, 120);
}

async function update() {
    hideOthers();
    if (!isStudy) {
        const own = controls.workload.value() === "";
        controls.samples_per_s.box.hidden = controls.parameters.box.hidden = !own;
    }
    const counts = workerCounts();
    showCommand(["dlsim", ...(isStudy && !data.scenario.startsWith("(") ? [data.scenario] : isStudy ? ["scenario.ini"] : []), ...settings(counts)]);
    if (running) {
        if (!again) replacing = setTimeout(stopWorker, PATIENCE_MS);
        again = true;
        return;
    }
    running = true;
    const start = performance.now();
    say("Simulating ...");
    try {
        const results = await rowsOf([...(isStudy ? [scenarioName] : []), ...settings(counts)]);
        const most = results.rows.filter(row => row.workers === counts.at(-1) && row.throughput_per_s > 0);
        show(results, most.reduce((a, b) => a && a.throughput_per_s >= b.throughput_per_s ? a : b, null));
        say(`Simulated in ${seconds((performance.now() - start) / 1000)}.`);
    } catch (error) {
        if (error === stopped) {
            say("Stopped: the answer is that of earlier settings.");
        } else {
            for (const box of [answer, chart, line, table, notes]) box.replaceChildren(); // those are of other settings
            say(error.message.replace(/^dlsim: (\(command line\): )?/, ""), true);
        }
    }
    clearTimeout(replacing);
    running = false;
    if (again) {
        again = false;
        update();
    }
}

// Simulates the largest number of workers once more and shows its time line.
async function showLine() {
    const counts = workerCounts(), made = "timeline.json";
    say("Simulating ...");
    const answer = await simulate({ args: [...(isStudy ? [scenarioName] : []), ...settings([counts.at(-1)]), ...always, "--timeline", made], read: made });
    if (answer.status !== 0) throw new Error(answer.error || answer.out);
    dlscale.timeline(line, JSON.parse(answer.text), `${counts.at(-1)} workers, ${controls.mode.value()}: the first steps`);
    say("");
}

// Describes the first difference between the results of the page's simulator and those of the program that wrote the
// page: in the number of points, or in the throughput of a point; "" if there is none.
const isSame = (here, there) => Math.abs(here - there) <= 1e-9 * there;
function difference(results) {
    if (results.rows.length !== data.points.length) return `${results.rows.length} points here, ${data.points.length} in the results`;
    for (let i = 0; i < data.points.length; i++) {
        const here = results.rows[i].throughput_per_s, there = data.points[i].throughput_per_s;
        if (!(here > 0) && !(there > 0)) continue;
        if (!isSame(here, there)) return `point ${i + 1} is ${digits(here)} samples/s here, ${digits(there)} in the results`;
    }
    return "";
}

const MOST_COMPARED = 200;
async function begin() {
    startWorker();
    await ready;
    const words = async option => (await ask({ args: ["--complete", option, ""], files: {}, folder })).out.split("\n").filter(Boolean);
    if (listed.machine) listed.machine.append(...(await words("machine")).map(value => make("option", { value })));
    if (!isStudy) {
        const networks = await words("workload");
        controls.workload.input.append(...networks.map(value => make("option", { value }, value)));
        controls.workload.set("resnet50");
        controls.machine.set("8xh100");
        controls.parameters.set("25.6M");
        controls.mode.set("allreduce");
    } else {
        const best = data.points.reduce((a, b) => !b.throughput_per_s || a && a.throughput_per_s >= b.throughput_per_s ? a : b, null) || data.points[0];
        controls.workers.set(best.workers);
        controls.batch.set(perWorker ? best.batch / best.workers : best.batch);
        controls.mode.set(best.sync);
        controls.interval.set(best.interval || 16);
        for (const name of ["bound", "k"]) if (best[name] !== undefined) controls[name].set(best[name]);
        hideOthers();
        const isAll = data.points.length <= MOST_COMPARED;
        let results, why;
        say(isAll ? `Simulating the ${data.points.length} points of the results again ...` : "Simulating the best point of the results again ...");
        try {
            results = await rowsOf([scenarioName, ...(isAll ? [] : settings([best.workers]))]);
            why = isAll ? difference(results) : results.rows.some(row => isSame(row.throughput_per_s, best.throughput_per_s)) ? ""
                : `the best point is not ${digits(best.throughput_per_s)} samples/s here`;
        } catch (error) {
            why = error === stopped ? "" : error.message;
        }
        if (!why && !results) {
            say("Stopped: the results were not compared with those of the simulator in this page.");
            form.disabled = false;
            return;
        }
        if (why) return say(`The simulator in this page is of another version (${data.core}) than the results (${data.version}), so the controls are off: ${why}.`, true);
        if (isAll) {
            show(results, null, true);
            say(`All ${data.points.length} points of the results are the same here.`);
            showCommand(["dlsim", scenarioName]);
            form.disabled = false;
            return;
        }
    }
    form.disabled = false;
    await update();
}
begin().catch(error => say("The simulator does not run in this browser: " + error.message, true));
})();
